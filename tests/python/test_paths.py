"""The package says where the driver's files are."""

import re
from pathlib import Path

import pytest

import torch_openreg
from torch_openreg import paths


def header_version() -> str:
    """The version as the installed header states it."""
    text = (paths.include_dir() / "openreg" / "version.h").read_text(encoding="utf-8")
    parts = [
        re.search(rf"#define OPENREG_VERSION_{part} (\d+)", text)
        for part in ("MAJOR", "MINOR", "PATCH")
    ]
    return ".".join(part[1] for part in parts if part)


def test_include_dir_holds_the_headers_of_this_checkout():
    sources = Path(__file__).parents[2] / "include" / "openreg"
    installed = paths.include_dir() / "openreg"
    assert sorted(path.name for path in installed.glob("*.h")) == sorted(
        path.name for path in sources.glob("*.h")
    )
    for source in sources.glob("*.h"):
        assert (installed / source.name).read_bytes() == source.read_bytes()


def test_include_dir_holds_headers_of_the_backend():
    sources = Path(__file__).parents[2] / "backend"
    installed = paths.include_dir() / "backend"
    headers = [path.relative_to(installed) for path in installed.rglob("*.h")]
    assert {Path("export.h"), Path("runtime/stream.h")} <= set(headers)
    for header in headers:
        assert (installed / header).read_bytes() == (sources / header).read_bytes()


def test_library_path_is_one_shared_object():
    library = paths.library_path()
    assert library.name == "libopenreg.so"
    assert library.read_bytes()[:4] == b"\x7fELF"
    assert [path.name for path in library.parent.glob("libopenreg*")] == [library.name]


def test_cmake_dir_holds_the_package():
    names = {path.name for path in paths.cmake_dir().iterdir()}
    assert {"OpenRegConfig.cmake", "OpenRegConfigVersion.cmake"} <= names


def test_all_paths_are_inside_one_installation():
    root = paths.include_dir().parent
    assert paths.library_path().parent == root / "lib"
    assert paths.cmake_dir() == root / "lib" / "cmake" / "OpenReg"


def test_package_version_is_the_headers():
    assert torch_openreg.__version__ == header_version()


def test_paths_are_found_in_any_place_of_the_package(tmp_path, monkeypatch):
    library = tmp_path / "built" / "lib" / "libopenreg.so"
    library.parent.mkdir(parents=True)
    library.touch()
    places = [str(tmp_path / "sources"), str(tmp_path / "built")]
    monkeypatch.setattr(torch_openreg, "__path__", places)
    assert paths.library_path() == library.resolve()


def test_missing_file_is_named_in_the_error(tmp_path, monkeypatch):
    monkeypatch.setattr(torch_openreg, "__path__", [str(tmp_path)])
    with pytest.raises(FileNotFoundError, match=r"lib/libopenreg\.so") as error:
        paths.library_path()
    assert str(tmp_path) in str(error.value)
