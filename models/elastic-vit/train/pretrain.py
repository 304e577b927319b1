"""Trains the backbone with a linear head and prompts for each task on the mixture; each step draws the gamma that it runs with.

  python3 pretrain.py DATA CHECKPOINT [--steps 4000] [--processes 2]
First the convolutions alone (stem.py), into CHECKPOINT.stem. Each process takes its part of every batch on one core. Goes on from CHECKPOINT if it is there (written every two minutes);
--steps, --late and --shares may change then.
"""
import argparse
import os
import time

import numpy as np
import torch
from torch import distributed, multiprocessing, nn
from torch.nn import functional as F

from model import LAYERS, WIDTH, Backbone
from stem import train_stem
from tasks import CLASSES, NAMES, WIDEST, Walk, as_input, load, masked

SEED = 12
RATE, WEIGHT_DECAY, WARM_UP, SMOOTHING, MOMENTUM_OF_MEAN = 1e-3, 0.05, 0.05, 0.05, 0.998
# Tokens merged (< 0) or added in each layer: how often early, in cheap steps mostly, and from --late of the steps on. -10, in the
# list of gammas, is left out, so that what it costs is seen.
GAMMAS = (-8, -6, -4, 0, 2, 4, 8)
OFTEN_EARLY, OFTEN_LATE = (0.62, 0.22, 0.04, 0.02, 0.05, 0.03, 0.02), (0.1, 0.1, 0.1, 0.38, 0.14, 0.11, 0.07)
# Prompts learn so much faster than the backbone (VPT: their rates are of the order of 0.1).
PROMPT_RATE = 100


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = Backbone()
        self.heads = nn.Parameter(torch.randn(len(NAMES), WIDTH, WIDEST) * 0.02)
        self.biases = nn.Parameter(torch.zeros(len(NAMES), WIDEST))
        added = [gamma for gamma in GAMMAS if gamma > 0]
        self.prompts = nn.ParameterDict({str(gamma): torch.randn(len(NAMES), LAYERS, gamma, WIDTH) for gamma in added})

    def forward(self, images, task, gamma=0):
        features = self.backbone(images, max(0, -gamma), self.prompts[str(gamma)][task] if gamma > 0 else None)
        logits = torch.einsum("bd,bdc->bc", features, self.heads[task]) + self.biases[task]
        return masked(logits, task)


def smoothed_loss(logits, labels, task):
    """Cross-entropy whose target keeps SMOOTHING for all classes that the task has."""
    classes = torch.tensor(CLASSES)[task]
    log = F.log_softmax(logits, -1)
    own = -log.gather(1, labels[:, None])[:, 0]
    absent = torch.arange(WIDEST)[None] >= classes[:, None]
    all_classes = -log.masked_fill(absent, 0).sum(-1) / classes
    return ((1 - SMOOTHING) * own + SMOOTHING * all_classes).mean()


@torch.no_grad()
def accuracy(model, task, images, labels, gamma):
    right = 0
    for at in range(0, len(images), 250):
        part = as_input(images[at : at + 250])
        logits = model(part, torch.full((len(part),), task), gamma)
        right += (logits.argmax(1).numpy() == labels[at : at + 250]).sum()
    return right / len(images)


def rate_at(progress):
    if progress < WARM_UP:
        return RATE * progress / WARM_UP
    return RATE * 0.5 * float(1 + np.cos(np.pi * (progress - WARM_UP) / (1 - WARM_UP)))


def work(rank, processes, chosen):
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29513")
    distributed.init_process_group("gloo", rank=rank, world_size=processes)
    torch.manual_seed(SEED)
    model, mean = Model(), Model()
    if not os.path.exists(chosen.checkpoint):
        model.backbone.load_state_dict(torch.load(chosen.checkpoint + ".stem"))
    mean.load_state_dict(model.state_dict())
    prompts = list(model.prompts.values())
    plain = [p for name, p in model.named_parameters() if p.ndim < 2 or "place" in name or "first" in name]
    others = [p for p in model.parameters() if not any(p is q for q in plain + prompts)]
    groups = [
        {"params": others, "weight_decay": WEIGHT_DECAY, "times": 1},
        {"params": plain, "weight_decay": 0, "times": 1},
        {"params": prompts, "weight_decay": 0, "times": PROMPT_RATE},
    ]
    optimizer = torch.optim.AdamW(groups, lr=RATE, betas=(0.9, 0.98))
    start = 0
    if os.path.exists(chosen.checkpoint):
        kept = torch.load(chosen.checkpoint, map_location="cpu", weights_only=False)
        model.load_state_dict(kept["model"])
        mean.load_state_dict(kept["mean"])
        optimizer.load_state_dict(kept["optimizer"])
        start = kept["step"]
    drawn = np.random.default_rng([SEED, start])
    random = np.random.default_rng([SEED, start, rank])
    data = load(chosen.data)
    walks = [Walk(data[task], task, random) for task in range(len(NAMES))]
    shares = [share // processes for share in chosen.shares]
    task = torch.cat([torch.full((count,), at) for at, count in enumerate(shares)])
    said = saved = time.time()
    losses, hits = [], []
    for step in range(start, chosen.steps):
        progress = step / chosen.steps
        for group in optimizer.param_groups:
            group["lr"] = group["times"] * rate_at(progress)
        parts = [walk.next(count) for walk, count in zip(walks, shares)]
        images, labels = torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])
        logits = model(images, task, int(drawn.choice(GAMMAS, p=OFTEN_EARLY if progress < chosen.late else OFTEN_LATE)))
        loss = smoothed_loss(logits, labels, task)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        used = [p for p in model.parameters() if p.grad is not None]  # the same in all processes
        gradients = torch.cat([p.grad.reshape(-1) for p in used])
        distributed.all_reduce(gradients)
        gradients /= processes
        at = 0
        for p in used:
            p.grad.copy_(gradients[at : at + p.numel()].view_as(p))
            at += p.numel()
        nn.utils.clip_grad_norm_(used, 1.0)
        optimizer.step()
        with torch.no_grad():
            keep = min(MOMENTUM_OF_MEAN, (step + 1) / (step + 10))
            for averaged, current in zip(mean.parameters(), model.parameters()):
                averaged.lerp_(current, 1 - keep)
        if rank > 0:
            continue
        losses.append(loss.item())
        hits.append([(logits.argmax(1) == labels)[task == at].float().mean().item() for at in range(len(NAMES))])
        if (step + 1) % 50 == 0:
            print(f"step {step + 1}/{chosen.steps} loss {np.mean(losses):.3f} train {np.mean(hits, 0).round(3)} {(time.time() - said) / 50:.2f} s/step", flush=True)
            losses, hits, said = [], [], time.time()
        if time.time() - saved > 120 or step + 1 == chosen.steps:
            kept = {"model": model.state_dict(), "mean": mean.state_dict(), "optimizer": optimizer.state_dict(), "step": step + 1}
            torch.save(kept, chosen.checkpoint + ".part")
            os.replace(chosen.checkpoint + ".part", chosen.checkpoint)
            saved = time.time()
        if (step + 1) % 1000 == 0 or step + 1 == chosen.steps:
            for at, name in enumerate(NAMES):
                images, labels = data[at]["profile"][:500], data[at]["profile_labels"][:500]
                print(name, {gamma: round(float(accuracy(mean, at, images, labels, gamma)), 3) for gamma in (-8, 0, 2)}, flush=True)
            said = time.time()


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("data")
    arguments.add_argument("checkpoint")
    arguments.add_argument("--steps", type=int, default=4000)
    arguments.add_argument("--shares", type=int, nargs=len(NAMES), default=[30, 8, 26], help="images of each task in a batch")
    arguments.add_argument("--late", type=float, default=0.72, help="part of the steps from which on most are not merged")
    arguments.add_argument("--processes", type=int, default=2)
    chosen = arguments.parse_args()
    if not os.path.exists(chosen.checkpoint) and not os.path.exists(chosen.checkpoint + ".stem"):
        torch.manual_seed(SEED)
        backbone = Backbone()
        train_stem(backbone, load(chosen.data), chosen.shares, SEED, smoothed_loss)
        torch.save(backbone.state_dict(), chosen.checkpoint + ".stem")
    multiprocessing.spawn(work, (chosen.processes, chosen), chosen.processes)


if __name__ == "__main__":
    main()
