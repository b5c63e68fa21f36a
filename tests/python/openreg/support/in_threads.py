"""Threads for tests."""

import threading
from collections.abc import Callable


def in_threads(work: Callable[[int], None], count: int = 4) -> None:
    """Run ``work`` with 0, 1, … on threads that start together."""
    failures: list[BaseException] = []
    start = threading.Barrier(count)

    def run(index: int) -> None:
        try:
            start.wait(timeout=60)
            work(index)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
        assert not thread.is_alive()
    if failures:
        raise failures[0]
