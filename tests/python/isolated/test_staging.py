"""The memory that pageable copies are staged in."""

from programs import run

MIB = 1 << 20


def test_copies_one_after_the_other_share_it():
    """It stays small, and in the processor's caches."""
    script = f"""
        here = torch.arange({4 * MIB}, dtype=torch.uint8)
        there = here.to("openreg")
        for _ in range(40):
            there.copy_(here)
            assert torch.equal(there.cpu(), here)
        with os.scandir("/proc/self/fd") as files:
            for file in files:
                if os.readlink(file).startswith("/memfd:openreg-staging"):
                    print(file.stat().st_blocks * 512)
    """
    assert 0 < int(run(script)) <= 4 * MIB
