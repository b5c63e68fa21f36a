"""The errors for missing parts, and the names that programs look up for them.

A graph compiler, collectives, a profiler and graphs are missing. Each text says what is
missing, what to do instead and which section to read. ``torch_openreg/_refusals.py``
lets PyTorch say so. A part that arrives leaves both files.
"""

from typing import NoReturn


def _words(missing: str, instead: str, section: str) -> str:
    return f'{missing} {instead} See docs/troubleshooting.md under "{section}".'


NO_COMPILER = _words(
    "Inductor, the default backend of torch.compile, has no code generator for "
    "'openreg' yet.",
    'Pass backend="aot_eager" to torch.compile: it runs the same operators as the '
    "program does without it.",
    "torch.compile with the default backend",
)
NO_COLLECTIVES = _words(
    "Collectives on 'openreg' need a process group backend of their own, 'occl', which "
    "does not exist yet.",
    'Use init_process_group("gloo"), with tensors and models on the CPU.',
    "Collectives on the device",
)
NO_PROFILER = _words(
    "The profiler does not record yet what runs on 'openreg', only how the host calls "
    "the operators.",
    "Pass activities=[ProfilerActivity.CPU] to torch.profiler.profile, and measure "
    "time on the device with torch.openreg.Event(enable_timing=True).",
    "A profile without the device",
)
NO_GRAPHS = _words(
    "Work on 'openreg' cannot be captured as a graph and replayed yet.",
    "Run it without a graph.",
    "A graph is captured",
)


class _CodegenType(type):
    """Refuses the first question that Inductor asks about a graph on the device."""

    @property
    def supports_caching(cls) -> NoReturn:
        raise NotImplementedError(NO_COMPILER)


class _Codegen(metaclass=_CodegenType):
    """Stands for each of the classes in ``CODEGEN_NAMES``; cannot be made."""

    def __init__(self, *_: object) -> None:
        raise NotImplementedError(NO_COMPILER)


# Inductor looks these up on the device's module, all or none. It does so for every
# program, so finding them must change nothing for those on other devices.
CODEGEN_NAMES = (
    "CppWrapperCodegen",
    "PythonWrapperCodegen",
    "Scheduling",
    "WrapperFxCodegen",
)
# The names of torch.cuda that concern graphs.
GRAPH_NAMES = (
    "CUDAGraph",
    "graph",
    "graph_pool_handle",
    "graphs",
    "make_graphed_callables",
)


def find(name: str) -> type:
    """Return what PyTorch is to find on the device's module by this name.

    Raises AttributeError if there is nothing, with the reason if that is known: a
    program that asks with ``hasattr`` goes on.
    """
    if name in CODEGEN_NAMES:
        return _Codegen
    reason = f": {NO_GRAPHS}" if name in GRAPH_NAMES else ""
    raise AttributeError(f"module 'torch.openreg' has no attribute {name!r}{reason}")
