"""Common calls, written as programs write them, on inputs of two sizes.

A call is an expression. It is evaluated with inputs on the device and with the same
ones on the CPU. Nothing runs when this is imported.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

SIZES = {"small": 8, "medium": 128}
SEED = 1
PARTS = 64  # tensors in a list


def _tensors(n: int) -> dict[str, torch.Tensor]:
    """Return inputs on the CPU. Those in `_HOST` stay there."""
    x, y = torch.rand(n, n) + 0.1, torch.rand(n, n) + 0.1
    return {
        "x": x,
        "y": y,
        "s": torch.randn(n, n),
        "u": torch.rand(n) + 0.1,
        "v": torch.rand(n) + 0.1,
        "d": x.double(),
        "bf": x.bfloat16(),
        "z": torch.complex(x, y),
        "k": torch.randint(0, n, (n, n)),
        "i": torch.randint(0, n, (n,)),
        "once": torch.randperm(n),
        "m": x > 0.6,
        "m1": torch.arange(n) % 2 == 0,
        "b": torch.randn(4, n, n),
        "spd": x @ x.T + n * torch.eye(n),
        "row": torch.rand(1, n),
        "column": torch.rand(n, 1),
        "image": torch.randn(2, 4, n // 4 + 4, n // 4 + 4),
        "signal": torch.randn(2, 4, n),
        "sequence": torch.randn(n // 4 + 4, 4, 16),
        "heads": torch.randn(2, 4, n // 2, 16),
        "table": torch.randn(100, 16),
        "words": torch.randint(0, 100, (4, n)),
        "lengths": torch.tensor([n // 4 + 4, n // 4, n // 8 + 1, 2]),
        "host": torch.rand(n, n),
        "few": torch.randint(0, 4, (n,)),
    }


_HOST = ("host", "lengths")


def _modules(device: torch.device) -> dict[str, torch.nn.Module]:
    nn = torch.nn
    modules = {
        "linear": nn.Linear(16, 16),
        "norm": nn.LayerNorm(16),
        "lstm": nn.LSTM(16, 32),
        "gru": nn.GRU(16, 32),
        "rnn": nn.RNN(16, 32),
        "wide_gru": nn.GRU(16, 128, num_layers=2),
        "wide_rnn": nn.RNN(16, 128, num_layers=2),
        "bilstm": nn.LSTM(16, 32, bidirectional=True),
        "lstm_cell": nn.LSTMCell(16, 32),
        "gru_cell": nn.GRUCell(16, 32),
        "attention": nn.MultiheadAttention(16, 2),
        "encoder": nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0),
    }
    return {name: modules[name].to(device).requires_grad_(False) for name in modules}


def gradient(
    function: Callable[..., torch.Tensor], *tensors: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    """Run `function` and its backward; return the gradients of the tensors."""
    leaves = [tensor.detach().requires_grad_() for tensor in tensors]
    return torch.autograd.grad(function(*leaves).sum(), leaves)


def inputs(n: int, device: torch.device) -> dict[str, Any]:
    """Return what an expression may name, the same for every device."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(SEED)
        tensors = _tensors(n)
        modules = _modules(device)
    scope: dict[str, Any] = {
        name: tensor if name in _HOST else tensor.to(device)
        for name, tensor in tensors.items()
    }
    scope |= modules
    scope["parts"] = list(scope["b"].reshape(PARTS, -1).unbind())
    scope["sparse"] = (scope["s"] * (scope["x"] > 0.8)).to_sparse()
    with warnings.catch_warnings(action="ignore"):  # CSR is in beta state
        scope["csr"] = scope["sparse"].to_sparse_csr()
    scope["packed"] = pack_padded_sequence(scope["sequence"], scope["lengths"])
    return scope | {
        "torch": torch,
        "F": torch.nn.functional,
        "n": n,
        "device": device,
        "gradient": gradient,
        "pad_packed_sequence": pad_packed_sequence,
        "pack_padded_sequence": pack_padded_sequence,
    }


# By family, one after the other; each is measured with both sizes.
FAMILIES = {
    "unary": """
        x.exp() | x.log() | x.sqrt() | x.sin() | s.abs() | -s | s.relu() | s.sigmoid()
        s.tanh() | x.digamma() | x.lgamma() | s.erf() | s.round() | s.sign() | x.rsqrt()
        x.reciprocal() | m.logical_not() | ~m | x.isnan() | s.clamp(-1, 1)
        x.bfloat16()
        bf.float() | x.double() | k.float() | x.clone() | s.exp_().clamp_(0, 1)
    """,
    "binary": """
        x + y | x - y | x * y | x / y | x + 1 | x * 2.5 | x ** 2 | x.pow(y) | x + row
        x + column | x == y | x < y | torch.maximum(x, y) | m & m | m.logical_and(m)
        torch.where(m, x, y) | torch.where(m, x, 0.0) | x.atan2(y) | x.fmod(y) | k // 3
        k % 3 | x.add_(0.5) | x.mul_(0.5).add_(0.1) | bf + bf | d * d | z * z
        torch.lerp(x, y, 0.3) | torch.addcmul(x, x, y) | x.masked_fill(m, 0.0)
    """,
    "reductions": """
        x.sum() | x.sum(0) | x.sum(-1) | x.mean() | x.mean(-1, keepdim=True) | x.std()
        x.var(-1) | x.max() | x.max(-1) | x.argmax(-1) | x.amax(0) | x.min(0) | x.prod()
        m.any() | m.all(-1) | x.norm() | x.norm(dim=-1) | x.logsumexp(-1) | x.median()
        x.median(-1) | x.kthvalue(3) | x.cumsum(0) | x.cumsum(-1) | x.cumprod(-1)
        x.sort() | x.argsort(-1) | x.topk(3) | x.aminmax() | torch.linalg.vector_norm(v)
        few.bincount() | few.unique() | s.histc(10) | x.quantile(0.5, dim=-1)
        torch.std_mean(x, -1) | x.cummax(0) | x.count_nonzero() | x.logcumsumexp(0)
    """,
    "indexing": """
        x[i] | x[i, i] | x[:, i] | x[m] | x[1] | x[1:3] | x[..., None] | x[0, 1]
        x.index_select(0, i) | x.index_select(1, i) | x.gather(1, k) | x.take(k)
        x.scatter(1, k, y) | x.scatter_add(1, k, y) | x.index_add(0, i, y)
        x.index_fill(0, i, 0.0) | x.masked_select(m) | m.nonzero() | x.tril() | x.triu()
        x.diag() | torch.diag(v) | x.diagonal().sum() | x.roll(1, 0) | x.flip(0)
        x.t().contiguous() | b.permute(2, 0, 1).contiguous() | x.repeat(2, 2)
        v.repeat_interleave(few) | v.repeat_interleave(2) | torch.cat([x, y])
        torch.stack([x, y]) | torch.cat(parts) | torch.stack(parts) | x.split(2)
        x.chunk(2, -1) | x.unfold(0, 2, 1).sum() | torch.meshgrid(u, v, indexing='ij')
        torch.searchsorted(u, v) | torch.bucketize(x, u) | F.one_hot(i, n)
        x.expand(4, -1, -1).contiguous() | x.view(-1).sum() | torch.combinations(v[:8])
    """,
    "assignment": """
        x.__setitem__(0, 1.5) | x.__setitem__(0, v) | x.__setitem__(once, y)
        x.__setitem__(m, 0.5) | x.__setitem__(slice(1, 3), 0.0)
        x.__setitem__((0, 1), 2.0)
        x.index_copy_(0, once, y) | x.index_put_((once,), v) | x.fill_(0.5) | x.zero_()
    """,
    "linear algebra": """
        x @ y | x @ v | u @ v | torch.outer(u, v) | b @ x | b.bmm(b)
        torch.addmm(x, x, y) | torch.einsum('ij,kj->ik', x, y) | torch.cdist(x, y)
        torch.linalg.inv(spd) | torch.linalg.solve(spd, v) | torch.linalg.det(spd)
        torch.linalg.cholesky(spd) | torch.linalg.qr(x) | torch.trace(x)
        torch.kron(x[:4, :4], y[:4, :4]) | torch.linalg.norm(x)
    """,
    "functional": """
        F.softmax(s, -1) | F.log_softmax(s, -1) | F.gelu(s) | F.silu(s)
        F.leaky_relu(s)
        F.elu(s) | F.softplus(s) | F.linear(x, y, v) | F.layer_norm(s, (n,))
        F.layer_norm(s, (n,), u, v) | F.group_norm(image, 2) | F.rms_norm(s, (n,))
        F.batch_norm(x, u, v) | F.embedding(words, table) | F.cross_entropy(s, i)
        F.nll_loss(s, i) | F.mse_loss(x, y) | F.l1_loss(x, y) | F.smooth_l1_loss(x, y)
        F.binary_cross_entropy_with_logits(s, x) | F.normalize(x) | F.pad(x, (1, 1))
        F.conv1d(signal, signal[:, :, :3]) | F.conv2d(image, image[:, :, :3, :3])
        F.max_pool2d(image, 2) | F.avg_pool2d(image, 2)
        F.adaptive_avg_pool2d(image, 1)
        F.interpolate(image, scale_factor=2) | F.dropout(x, 0.5)
        F.cosine_similarity(x, y)
        F.interpolate(image, scale_factor=2, mode='bilinear') | F.glu(s) | F.hardtanh(s)
        F.scaled_dot_product_attention(heads, heads, heads) | F.pixel_shuffle(image, 2)
        F.scaled_dot_product_attention(heads, heads, heads, is_causal=True)
    """,
    "modules": """
        linear(sequence) | norm(sequence) | lstm(sequence) | gru(sequence)
        rnn(sequence)
        wide_gru(sequence) | wide_rnn(sequence) | bilstm(sequence) | encoder(sequence)
        lstm(packed)[0].data | gru(packed)[0].data | lstm_cell(sequence[0])
        gru_cell(sequence[0]) | attention(sequence, sequence, sequence)
        pack_padded_sequence(sequence, lengths).data | pad_packed_sequence(packed)
    """,
    "sparse": """
        sparse + sparse | sparse @ x | sparse.to_dense() | s.to_sparse() | sparse * 2
        sparse.coalesce() | csr @ x | csr @ v | sparse.t() | sparse.sum()
    """,
    "factories": """
        torch.zeros(n, n, device=device) | torch.ones(n, n, device=device)
        torch.full((n, n), 2.5, device=device) | torch.arange(n, device=device)
        torch.arange(0, 1, 1 / n, device=device)
        torch.linspace(0, 1, n, device=device)
        torch.eye(n, device=device) | torch.zeros_like(x) | torch.ones_like(x)
        torch.full_like(x, 2.0) | torch.rand(n, n, device=device)
        torch.randn(n, n, device=device) | torch.randint(0, 9, (n,), device=device)
        torch.randperm(n, device=device) | x.new_zeros(3)
        torch.bernoulli(x.clamp(0, 1))
        torch.multinomial(v, 3) | x.uniform_(0.1, 1.1) | s.normal_()
    """,
    "to and from the host": """
        x.copy_(host) | host.copy_(x) | torch.tensor([1.0, 2.0, 3.0], device=device)
        torch.tensor(1.5, device=device) | v.tolist() | x.sum().item()
        torch.equal(x, x)
        torch.allclose(x, x) | bool(m.any()) | float(v[0]) | x.copy_(y) | x.copy_(d)
        x.copy_(row)
    """,
    "backward": """
        gradient(lambda a: a * 2, x) | gradient(lambda a: a.exp(), x)
        gradient(lambda a, b: a * b, x, y) | gradient(lambda a, b: a @ b, x, y)
        gradient(lambda a: a.relu(), s) | gradient(lambda a: a.mean(-1), x)
        gradient(lambda a: F.softmax(a, -1), s)
        gradient(lambda a: F.layer_norm(a, (n,)), s)
        gradient(lambda a: F.cross_entropy(a, i), s) | gradient(lambda a: a[i], x)
        gradient(lambda a: a + row, x) | gradient(lambda a: F.linear(a, y, v), x)
        gradient(lambda a: F.conv2d(image, a), image[:, :, :3, :3])
        gradient(lambda a: gru(a)[0], sequence)
        gradient(lambda a: lstm(a)[0], sequence)
    """,
}


@dataclass(frozen=True)
class Call:
    """An expression, and the size of its inputs: one of `SIZES`."""

    expression: str
    size: str

    @property
    def name(self) -> str:
        """The call in words, which are its own."""
        return f"{self.expression}, {self.size}"

    def inputs(self, device: torch.device) -> dict[str, Any]:
        """Return new inputs of that size."""
        return inputs(SIZES[self.size], device)

    def bind(self, scope: dict[str, Any]) -> Callable[[], object]:
        """Return a function that evaluates the expression on these inputs."""
        function: Callable[[], object] = eval(f"lambda: {self.expression}", scope)
        return function

    def prepare(self, device: torch.device) -> Callable[[], object]:
        """Return a function that evaluates the expression on new inputs."""
        return self.bind(self.inputs(device))


def _expressions(text: str) -> list[str]:
    lines = text.replace("\n", " | ").split(" | ")
    return [line.strip() for line in lines if line.strip()]


CALLS = tuple(
    Call(expression, size)
    for text in FAMILIES.values()
    for expression in _expressions(text)
    for size in SIZES
)
