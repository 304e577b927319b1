"""The elastic vision transformer in PyTorch: what is trained here is what src/bench/serving/elastic/elastic-graph.ts writes as a graph.

Merging follows ToMe (Bolya et al. 2023, section 3), prompts follow VPT-deep (Jia et al. 2022, section 3.2) except that those
of earlier layers stay, so that the sequence grows by gamma in every layer (OTAS, Fig. 6).
"""
import math

import torch
from torch import nn
from torch.nn import functional as F

WIDTH, HEADS, LAYERS, SIDE, GRID = 128, 4, 12, 32, 8
TOKENS = GRID * GRID + 1


class Block(nn.Module):
    def __init__(self, width=WIDTH, heads=HEADS):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x, size, r):
        batch, count, width = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, count, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        scores = (q * (width // self.heads) ** -0.5) @ k.transpose(-2, -1)
        if size is not None:
            scores = scores + size.log()[:, None, None, :, 0]  # proportional attention
        mixed = (scores.float().softmax(-1).to(v.dtype) @ v).transpose(1, 2).reshape(batch, count, width)
        x = x + self.proj(mixed)
        if r > 0:
            x, size = merge(x, size, k.mean(1), r)
        return x + self.down(F.gelu(self.up(self.norm2(x)))), size


def merge(x, size, keys, r):
    """Merges r tokens of the even half into their most alike of the odd half; the class token, first, is never merged."""
    batch, count, width = x.shape
    r = min(r, (count - 1) // 2)
    if size is None:
        size = x.new_ones(batch, count, 1, dtype=torch.float32)
    if r == 0:
        return x, size
    with torch.no_grad():
        keys = F.normalize(keys.float(), dim=-1)
        alike = keys[:, 2::2] @ keys[:, 1::2].transpose(-1, -2)
        best, into = alike.max(-1)
        order = best.sort(dim=-1, descending=True, stable=True)[1]
        gone, kept = order[:, :r], order[:, r:].sort(-1)[0]
        into = into.gather(1, gone)
    both = torch.cat([x.float() * size, size], -1)
    even, odd = both[:, 2::2], both[:, 1::2]
    wide = lambda index: index[:, :, None].expand(-1, -1, width + 1)
    odd = odd.scatter_add(1, wide(into), even.gather(1, wide(gone)))
    both = torch.cat([both[:, :1], even.gather(1, wide(kept)), odd], 1)
    size = both[:, :, width:]
    return both[:, :, :width] / size, size


def waves():
    """[1,tokens,width]: sines of a token's row and column, half of the width each; nothing for the class token."""
    rates = 2 * math.pi / 2 ** torch.linspace(0.5, 5, WIDTH // 4)
    line = torch.arange(GRID)[:, None] * rates[None]
    both = torch.cat([line.sin(), line.cos()], 1)
    grid = torch.cat([both[:, None].expand(-1, GRID, -1), both[None].expand(GRID, -1, -1)], -1)
    return torch.cat([torch.zeros(1, WIDTH), grid.reshape(GRID * GRID, WIDTH)])[None]


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem1 = nn.Conv2d(1, 32, 3, 2, 1)
        self.stem2 = nn.Conv2d(32, 64, 3, 2, 1)
        self.stem3 = nn.Conv2d(64, WIDTH, 1)
        self.first = nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.place = nn.Parameter(0.5 * waves())
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        for layer in self.modules():
            if isinstance(layer, nn.Linear):
                nn.init.trunc_normal_(layer.weight, std=0.06)
                nn.init.zeros_(layer.bias)
        for block in self.blocks:  # what adds to the stream, smaller with depth
            for layer in (block.proj, block.down):
                layer.weight.data.div_(math.sqrt(LAYERS / 2))

    def forward(self, images, r=0, prompts=None):
        """images [b,1,32,32] in 0..1; prompts [b,layers,P,width] or None -> features [b,width] of the class token."""
        x = self.stem3(F.gelu(self.stem2(F.gelu(self.stem1(images)))))
        x = x.flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(len(x), -1, -1).to(x.dtype), x], 1) + self.place
        size = None
        for layer, block in enumerate(self.blocks):
            if prompts is not None:
                x = torch.cat([x, prompts[:, layer].to(x.dtype)], 1)
            x, size = block(x, size, r)
        return self.norm(x[:, 0].float())
