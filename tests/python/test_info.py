"""``python -m torch_openreg info``: it tells what is so."""

import json
import os
import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from textwrap import dedent

import pytest
import torch

from torch_openreg import info
from torch_openreg.__main__ import main

ROOT = Path(__file__).parents[2]


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command with these variables on top of those of the tests."""
    return subprocess.run(
        [sys.executable, "-m", "torch_openreg", *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


def run_json(*arguments: str, **environment: str) -> dict:
    """Run ``info --json``, which must succeed, and read what it prints."""
    done = run("info", "--json", *arguments, **environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_device_is_running():
    found = run_json(OPENREG_DEVICES="3", OPENREG_MEMORY="64MiB")
    assert [device["index"] for device in found["devices"]] == [0, 1, 2]
    for device in found["devices"]:
        assert device["is_open"]
        assert device["error"] is None
        assert device["pid"] > 0
        assert device["resident_memory"] > 2**20
        assert device["threads"] >= 1
        assert device["streams"] >= 1
        assert device["queued_commands"] == 0
        assert 0 < device["memory_used"] <= device["memory_limit"] == 64 * 2**20
        assert device["life"] == 1
    assert found["error"] is None
    assert found["hints"] == []


def test_the_process_is_the_one_that_the_driver_says():
    found = run_json(OPENREG_DEVICES="2", OPENREG_DRIVER="inprocess")
    for device in found["devices"]:
        assert device["driver"] == "inprocess"
        assert device["pid"] == found["process"]


def test_isolated_devices_have_processes_of_their_own():
    found = run_json(OPENREG_DEVICES="2", OPENREG_DRIVER="isolated")
    pids = [device["pid"] for device in found["devices"]]
    assert all(device["driver"] == "isolated" for device in found["devices"])
    assert len({found["process"], *pids}) == 3


def test_devices_are_left_alone_if_asked_to():
    for device in run_json("--no-start")["devices"]:
        assert not device["is_open"]
        assert device["pid"] == 0
    assert "not started" in run("info", "--no-start").stdout


def test_versions_are_those_of_the_process():
    versions = run_json("--no-start")["versions"]
    assert versions["torch"] == torch.__version__
    assert versions["python"] == ".".join(map(str, sys.version_info[:3]))
    assert re.fullmatch(r"\d+\.\d+\.\d+", versions["driver"])


def test_settings_and_variables_are_shown_with_their_defaults():
    done = run("info", OPENREG_DEVICES="1", OPENREG_STRICT="1")
    assert done.returncode == 0
    rows = {line.split()[0]: line.split() for line in done.stdout.splitlines() if line}
    assert rows["OPENREG_STRICT"][1] == "1"
    assert rows["OPENREG_LAUNCH_BLOCKING"][1] == "(0)"
    assert rows["strict"][1] == "True"
    assert rows["openreg:0"][1] == os.environ.get("OPENREG_DRIVER", "inprocess")


def test_a_variable_that_means_nothing_gets_a_hint():
    done = run("info", "--no-start", OPENREG_DEVICE="4", OPENREG_ZZZ="1")
    asked = "OPENREG_DEVICE is not an OpenReg variable. Did you mean OPENREG_DEVICES?\n"
    assert asked in done.stdout + "\n"
    assert "OPENREG_ZZZ is not an OpenReg variable.\n" in done.stdout + "\n"


def test_a_bad_value_is_told_and_fails():
    done = run("info", OPENREG_DEVICES="many")
    assert done.returncode == 1
    assert "The devices cannot be used" in done.stdout
    assert "OPENREG_DEVICES='many' is not valid: expected a number" in done.stdout
    assert "Traceback" not in done.stderr


def test_a_bad_value_of_strict_is_told_like_the_others():
    done = run("info", OPENREG_STRICT="yes")
    assert done.returncode == 1
    assert "OPENREG_STRICT='yes' is not valid: expected 0 or 1" in done.stdout
    assert "Traceback" not in done.stderr


def test_without_a_command_there_is_help():
    done = run()
    assert done.returncode == 0
    assert "usage: python -m torch_openreg" in done.stdout
    assert "print devices, processes, versions and settings" in done.stdout


def test_a_reader_that_goes_away_is_no_error():
    command = f"{sys.executable} -m torch_openreg info --no-start | head -n 0"
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, timeout=120
    )
    assert done.stderr == ""


def test_the_command_has_a_name_and_says_it(capsys):
    (script,) = entry_points(group="console_scripts", name="openreg")
    assert script.load() is main
    assert main([]) == 0
    assert capsys.readouterr().out.startswith("usage: openreg ")
    with pytest.raises(SystemExit):
        main(["info", "--help"])
    assert capsys.readouterr().out.startswith("usage: openreg info ")


def test_a_misspelled_variable_is_warned_of_once_at_first_use():
    code = """
    import torch
    print("imported")
    torch.ones(1, device="openreg"), torch.ones(1, device="openreg:0")
    """
    done = subprocess.run(
        [sys.executable, "-c", dedent(code)],
        env={**os.environ, "OPENREG_DEVICE": "3", "OPENREG_OTHER": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout == "imported\n"
    assert done.stderr.count("OPENREG_DEVICE is not an OpenReg variable.") == 1
    assert "Did you mean OPENREG_DEVICES?" in done.stderr
    assert "OPENREG_OTHER" not in done.stderr


@pytest.mark.parametrize("arguments", [("inform",), ("info", "--yaml")])
def test_bad_arguments_are_explained(arguments):
    done = run(*arguments)
    assert done.returncode == 2
    assert "usage: python -m torch_openreg" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_variables_are_those_of_the_documentation():
    documented = set()
    for name in ("driver.md", "operators.md"):
        text = (ROOT / "docs" / name).read_text()
        documented |= set(re.findall(r"OPENREG_[A-Z_]+(?=[=`])", text))
    assert set(info.VARIABLES) <= documented
    rows = re.findall(
        r"^\| `(OPENREG_[A-Z_]+)` \|", (ROOT / "docs/driver.md").read_text(), re.M
    )
    assert set(rows) <= set(info.VARIABLES)


def test_a_program_can_ask_for_itself():
    x = torch.ones(1000, device="openreg:0")
    process = torch.openreg.process_info("openreg:0")
    assert process.is_open
    assert process.memory_used >= x.nbytes
    isolated = torch.openreg.get_device_properties(0).isolated
    assert (process.pid != os.getpid()) == isolated
    assert process.driver == ("isolated" if isolated else "inprocess")
    with pytest.raises(torch.AcceleratorError):
        torch.openreg.process_info(50)
