"""Threads that use operators at the same time give what one thread gives."""

import pytest
import torch
from compare import DEVICE, assert_same, numbers, threads
from in_threads import in_threads
from network import make_network
from torch import nn, openreg
from torch.nn import functional

Tensor = torch.Tensor


pytestmark = pytest.mark.usefixtures("one_thread")


def train(network: nn.Module, device: str, index: int, steps: int = 8) -> list[Tensor]:
    """Losses and weights; ``index`` decides the data and the size of the batch."""
    network = network.to(device)
    optimizer = torch.optim.AdamW(network.parameters(), lr=0.01)
    inputs = (numbers(4 + index, 1, 8, 8) * (1 + index)).to(device)
    targets = (torch.arange(4 + index) % 5).to(device)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = functional.cross_entropy(network(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return [*losses, *(p.detach() for p in network.parameters())]


@pytest.mark.parametrize("own_stream", [False, True], ids=["default", "own streams"])
def test_eight_threads_on_two_devices_train_as_one(own_stream):
    networks = [make_network() for _ in range(8)]
    results: list[list[Tensor]] = [[] for _ in range(8)]

    def work(index: int) -> None:
        device = f"openreg:{index % 2}"
        openreg.set_device(index % 2)
        with openreg.stream(openreg.Stream() if own_stream else None):
            results[index] = train(networks[index], device, index)
            openreg.current_stream().synchronize()

    in_threads(work, 8)
    for index, found in enumerate(results):
        assert_same(found, train(make_network(), "cpu", index))


def test_threads_that_share_a_stream_and_a_shape_do_not_mix_results():
    x = torch.arange(64.0)
    ours = x.to(DEVICE)
    results: list[list[Tensor]] = [[] for _ in range(8)]

    def work(index: int) -> None:
        for step in range(100):
            results[index].append((ours * index + step).sum())

    in_threads(work, 8)
    for index, found in enumerate(results):
        expected = [(x * index + step).sum().item() for step in range(100)]
        assert torch.stack(found).tolist() == expected


def test_threads_that_need_data_at_the_same_time_get_their_own():
    def work(index: int) -> None:
        x = torch.arange(50, device=f"openreg:{index % 2}")
        for step in range(40):
            limit = (index * 7 + step) % 50
            assert (x < limit).nonzero().shape == (limit, 1)
            assert x[x < limit].shape == (limit,)
            assert (x + step).sum().item() == 1225 + 50 * step

    in_threads(work, 8)


def test_new_kinds_of_calls_may_come_from_all_threads_at_once():
    """Each size is new to the cache, and all threads ask for it together."""
    base = numbers(400).to(DEVICE)

    def work(index: int) -> None:
        for size in range(1, 300):
            assert base[:size].cos().shape == (size,)
            assert (
                torch.cat([base[:size], base[: index + 1]]).shape[0] == size + index + 1
            )

    in_threads(work, 8)


def test_errors_of_one_thread_do_not_reach_the_others():
    x = torch.ones(3, device=DEVICE)

    def work(thread: int) -> None:
        for _ in range(50):
            if thread % 2:
                with pytest.raises(RuntimeError, match="size"):
                    torch.ones(3, device=DEVICE) + torch.ones(4, device=DEVICE)
            else:
                assert (torch.ones(3, device=DEVICE) + x).shape == (3,)

    in_threads(work, 6)


def test_a_generator_that_two_streams_share_draws_in_the_order_of_the_calls(gate):
    generator = torch.Generator(DEVICE).manual_seed(9)
    first, second = openreg.Stream(), openreg.Stream()
    gate.hold(first)
    found = []
    for stream in (first, second, first, second):
        with openreg.stream(stream):
            found.append(torch.randn(50, device=DEVICE, generator=generator))
    assert not second.query()
    gate.open()
    openreg.synchronize()
    cpu = torch.Generator().manual_seed(9)
    assert_same(found, [torch.randn(50, generator=cpu) for _ in range(4)])


def test_the_default_generator_that_threads_share_draws_every_number_once():
    openreg.manual_seed(4)
    results: list[list[Tensor]] = [[] for _ in range(4)]

    def work(index: int) -> None:
        with openreg.stream(openreg.Stream() if index % 2 else None):
            for _ in range(25):
                results[index].append(torch.rand(16, device=DEVICE))
            openreg.current_stream().synchronize()

    in_threads(work, 4)
    expected = torch.rand(100, 16, generator=torch.Generator().manual_seed(4))
    found = torch.stack([x for part in results for x in part]).cpu()
    assert sorted(found.tolist()) == sorted(expected.tolist())


def test_a_backward_pass_follows_a_number_of_threads_that_was_set_after_another():
    """Autograd's threads run already then; sums of two threads are other sums."""
    generator = torch.Generator().manual_seed(1)
    values = torch.randn(200_000, generator=generator)

    def gradient(device: str) -> torch.Tensor:
        scale = torch.ones((), device=device, requires_grad=True)
        (values.to(device) * scale).sum().backward()
        return scale.grad.cpu()

    with threads(2):
        gradient(DEVICE)
    with threads(1):
        assert torch.equal(gradient(DEVICE), gradient("cpu"))
    with threads(2):
        assert torch.equal(gradient(DEVICE), gradient("cpu"))
