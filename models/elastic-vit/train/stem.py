"""The convolutions before the transformer, trained alone first: a class token has nothing to gather from tokens that say nothing.

Behind them two convolutions and a linear layer for each task, which are thrown away.
"""
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from model import WIDTH
from tasks import NAMES, WIDEST, Walk, masked

STEPS, BATCH_SHARE, RATE = 1000, 2, 3e-3


def features(backbone, images):
    """[b,width,8,8]"""
    return backbone.stem3(F.gelu(backbone.stem2(F.gelu(backbone.stem1(images)))))


def train_stem(backbone, data, shares, seed, loss_of):
    """Ends with tokens of mean 0 and deviation 1 in each number, over the images of all tasks."""
    torch.manual_seed(seed)
    random = np.random.default_rng([seed, 1])
    for stem in (backbone.stem1, backbone.stem2, backbone.stem3):
        nn.init.kaiming_normal_(stem.weight, nonlinearity="relu")
        nn.init.zeros_(stem.bias)
    behind = nn.Sequential(nn.GELU(), nn.Conv2d(WIDTH, WIDTH, 3, 2, 1), nn.GELU(), nn.Conv2d(WIDTH, WIDTH, 3, 2, 1), nn.GELU(), nn.Flatten())
    heads = nn.Parameter(torch.randn(len(NAMES), 4 * WIDTH, WIDEST) * 0.02)
    parameters = [heads, *behind.parameters(), *(p for stem in (backbone.stem1, backbone.stem2, backbone.stem3) for p in stem.parameters())]
    optimizer = torch.optim.AdamW(parameters, lr=RATE, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=STEPS, pct_start=0.1)
    walks = [Walk(data[task], task, random) for task in range(len(NAMES))]
    task = torch.cat([torch.full((BATCH_SHARE * count,), at) for at, count in enumerate(shares)])
    losses, hits, said = [], [], time.time()
    for step in range(STEPS):
        parts = [walk.next(BATCH_SHARE * count) for walk, count in zip(walks, shares)]
        images, labels = torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])
        logits = masked(torch.einsum("bd,bdc->bc", behind(features(backbone, images)), heads[task]), task)
        loss = loss_of(logits, labels, task)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        hits.append([(logits.argmax(1) == labels)[task == at].float().mean().item() for at in range(len(NAMES))])
        if (step + 1) % 50 == 0:
            print(f"stem step {step + 1}/{STEPS} loss {np.mean(losses):.3f} train {np.mean(hits, 0).round(3)} {(time.time() - said) / 50:.2f} s/step", flush=True)
            losses, hits, said = [], [], time.time()
    with torch.no_grad():
        tokens = torch.cat([features(backbone, walk.next(300)[0]) for walk in walks])
        mean, deviation = tokens.mean((0, 2, 3)), tokens.std((0, 2, 3))
        backbone.stem3.weight /= deviation[:, None, None, None]
        backbone.stem3.bias.copy_((backbone.stem3.bias - mean) / deviation)
