"""Coverage by PyTorch's own databases: every entry on the device, as on the CPU.

``python -m tests.coverage --help`` runs it. The modules, from the bottom up:

- ``databases``: the entries, and for which dtypes the CPU takes them;
- ``transplant``: the same arguments on another device;
- ``outcome``: what a program did: results, exception, warnings;
- ``compare``: how two outcomes differ;
- ``*_checks``: the programs, by kind of entry;
- ``cases``: which cases there are, and how one is run;
- ``worker``, ``pool``: processes that run cases, since a case may crash;
- ``results``, ``report``: the file that a run fills, and the page made of it.
"""
