"""Devices that die: at any moment of a training, and what is left of them."""

import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from programs import Watched, environment, run, running

# All of `make test-all`, or a sample of it; so many at the most in one program.
ALL_KILLS = int(os.environ.get("OPENREG_TEST_KILLS", "20"))
KILLS = min(ALL_KILLS, 100)


@pytest.mark.parametrize("seed", range(1, 1 + math.ceil(ALL_KILLS / KILLS)))
def test_training_survives_kills_at_random_moments(seed):
    """Each kill is a prompt error, and after a reset the numbers are the same."""
    program = Path(__file__).with_name("kill_loop.py")
    done = subprocess.run(
        [sys.executable, program, str(seed), str(KILLS)],
        env=environment({}),
        capture_output=True,
        text=True,
        timeout=120 + 4 * KILLS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == "", done.stderr
    summary = json.loads(done.stdout)
    assert len(summary["latencies"]) == KILLS
    assert max(summary["latencies"]) < 1.0
    # The first rounds fill caches; from then on nothing grows.
    settled = KILLS // 2
    assert max(summary["descriptors"][settled:]) == summary["descriptors"][settled]
    assert max(summary["threads"][settled:]) <= max(summary["threads"][:settled])
    growth = summary["memory"][-1] - summary["memory"][settled]
    assert growth < 20_000 * (KILLS - settled) + 2_000_000, summary["memory"]


def test_everything_of_a_lost_device_gives_the_same_error():
    run("""
        import warnings
        warnings.simplefilter("error")
        x = torch.ones(8, device="openreg:0")
        side = torch.openreg.Stream(0)
        event = torch.openreg.Event()
        event.record(side)
        pinned = torch.ones(1000).pin_memory()
        torch.openreg.synchronize(0)
        pid = pid_of(0)
        kill(0)
        expected = lost(lambda: (x + 1).cpu())
        assert f"process {pid} was killed by signal 9 (SIGKILL)" in expected
        uses = [
            lambda: x.cpu(),
            lambda: x.item() if x.numel() == 1 else x.sum().item(),
            lambda: (x * 2).cpu(),
            lambda: torch.ones(3, device="openreg:0").cpu(),
            lambda: torch.ones(1 << 22, device="openreg:0"),
            lambda: x.nonzero(),
            lambda: pinned.to("openreg:0", non_blocking=True),
            lambda: side.synchronize(),
            lambda: side.query(),
            lambda: event.synchronize(),
            lambda: event.query(),
            lambda: event.record(side),
            lambda: torch.openreg.synchronize(0),
            lambda: torch.openreg.current_stream(0).synchronize(),
            lambda: x.to("openreg:1").cpu(),
        ]
        reason = expected.split("device 0 is lost")[1].split("\\n")[0]
        for number, use in enumerate(uses):
            assert reason in lost(use), (number, lost(use))
        # Letting go of it all is quiet.
        del x, side, event, pinned, use, uses
        gc.collect()
        torch.openreg.empty_cache()
        torch.openreg.reset_device(0)
        assert torch.ones(3, device="openreg:0").tolist() == [1, 1, 1]
    """)


def test_old_objects_stay_invalid_after_the_reset():
    run("""
        import warnings
        warnings.simplefilter("error")
        x = torch.arange(8.0, device="openreg:0")
        event = torch.openreg.Event()
        event.record()
        kill(0)
        lost(lambda: (x + 1).cpu())
        torch.openreg.reset_device(0)
        for use in (lambda: x.cpu(), lambda: event.synchronize()):
            try:
                use()
            except RuntimeError:
                continue
            raise SystemExit("it worked")
        torch.openreg.reset_device(0)
        y = torch.arange(8.0, device="openreg:0")
        assert y.sum().item() == 28
        del x, event, use
        gc.collect()
        assert y.sum().item() == 28
    """)


def test_a_waiting_thread_wakes_up():
    """One that waits for a kernel of a minute or so, when its device dies."""
    run("""
        x = torch.ones(1500, 1500, device="openreg:0")
        torch.openreg.synchronize(0)
        errors = []
        submitted = threading.Semaphore(0)
        def wait():
            try:
                y = x
                for _ in range(2000):
                    y = (y @ x) / 1500
                submitted.release()
                torch.openreg.synchronize(0)
            except torch.AcceleratorError as error:
                errors.append((time.monotonic(), str(error)))
        threads = [threading.Thread(target=wait) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            assert submitted.acquire(timeout=60)
        assert torch.openreg.process_info(0).queued_commands > 0
        killed = time.monotonic()
        kill(0)
        for thread in threads:
            thread.join(timeout=30)
            assert not thread.is_alive()
        assert len(errors) == 3
        for came, message in errors:
            assert came - killed < 1.5, came - killed
            assert "SIGKILL" in message, message
        # The operator that it was at is named.
        assert "aten::" in errors[0][1], errors[0][1]
    """)


def test_a_stream_of_another_device_that_waits_goes_on():
    run("""
        x = torch.ones(1500, 1500, device="openreg:0")
        y = x
        for _ in range(1000):
            y = (y @ x) / 1500
        done = torch.openreg.Event()
        done.record(torch.openreg.current_stream(0))
        side = torch.openreg.Stream(1)
        done.wait(side)
        with side:
            z = torch.ones(4, device="openreg:1") + 1
        kill(0)
        begin = time.monotonic()
        side.synchronize()
        assert time.monotonic() - begin < 1.5
        assert z.tolist() == [2, 2, 2, 2]
        assert "SIGKILL" in lost(lambda: y.cpu())
    """)


def test_a_stopped_device_is_lost_by_its_silence():
    run("""
        x = torch.ones(4, device="openreg:0").add(1)
        torch.openreg.synchronize(0)
        kill(0, signal.SIGSTOP)
        message = lost(lambda: (x + 1).cpu(), limit=10)
        assert "has not answered for 1000 ms: it is stopped" in message, message
        torch.openreg.reset_device(0)
        assert torch.ones(2, device="openreg:0").tolist() == [1, 1]
    """)


def test_silence_has_a_limit_that_can_be_taken_away():
    run(
        """
        x = torch.ones(4, device="openreg:0").add(1)
        torch.openreg.synchronize(0)
        kill(0, signal.SIGSTOP)
        timer = threading.Timer(2.5, kill, (0, signal.SIGCONT))
        timer.start()
        assert x.tolist() == [2, 2, 2, 2]
        """,
        OPENREG_HEARTBEAT_LIMIT="0",
    )


@pytest.mark.parametrize("value", ["soon", "-1", "100", "1.5"])
def test_a_bad_limit_is_refused(value):
    message = run(
        """
        try:
            torch.openreg.init()
        except RuntimeError as error:
            print(error)
        """,
        OPENREG_HEARTBEAT_LIMIT=value,
    )
    assert f"OPENREG_HEARTBEAT_LIMIT='{value}' is not valid" in message


def test_the_program_can_end_with_a_lost_device():
    run("""
        x = torch.ones(4, device="openreg:0")
        torch.openreg.synchronize(0)
        kill(0)
        lost(lambda: (x + 1).cpu())
    """)


def test_a_killed_program_leaves_no_process():
    script = """
        x = [torch.ones(1000, device=f"openreg:{i}").add(1) for i in range(2)]
        torch.openreg.synchronize(0)
        torch.openreg.synchronize(1)
        print(pid_of(0))
        print(pid_of(1), flush=True)
        while True:
            x[0] = x[0] * 1.0001
    """
    with running(script) as program:
        devices = [Watched(int(program.read_line())) for _ in range(2)]
        program.process.kill()
        deadline = time.monotonic() + 2
        assert all(device.ends_by(deadline) for device in devices)
        for device in devices:
            device.close()


def test_the_programs_children_are_its_own():
    """os.wait() and friends never meet a device."""
    run("""
        x = torch.ones(3, device="openreg:0").add(1)
        import subprocess, multiprocessing
        try:
            os.waitpid(-1, os.WNOHANG)
            raise SystemExit("there is a child")
        except ChildProcessError:
            pass
        assert subprocess.run(["true"]).returncode == 0
        child = os.posix_spawn("/bin/true", ["true"], {})
        assert os.wait()[0] == child
        context = multiprocessing.get_context("spawn")
        assert x.tolist() == [2, 2, 2]
    """)
