def write_report(results, path):
    pass
