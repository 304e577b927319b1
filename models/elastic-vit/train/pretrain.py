"""Trains the backbone with a linear head per task on the mixture, merging r tokens per layer, r drawn by step.

  python3 pretrain.py DATA CHECKPOINT [--steps 5000] [--processes 2]
Each process takes its part of every batch on one core. Goes on from CHECKPOINT if it is there (written every two minutes);
--steps may change then.
"""
import argparse
import os
import time

import numpy as np
import torch
from torch import distributed, multiprocessing, nn
from torch.nn import functional as F

from model import WIDTH, Backbone
from tasks import CLASSES, NAMES, WIDEST, Walk, as_input, load, masked

SEED = 12
SHARES = (36, 8, 20)  # images of each task in a batch
RATE, WEIGHT_DECAY, WARM_UP, SMOOTHING, MOMENTUM_OF_MEAN = 1.2e-3, 0.05, 0.05, 0.05, 0.998
# Early steps are cheap ones; 10, in the list of gammas, is left out so that what it costs is seen.
MERGED = (0, 4, 6, 8)
OFTEN_EARLY, OFTEN_LATE, LATE = (0.02, 0.04, 0.28, 0.66), (0.55, 0.2, 0.125, 0.125), 0.78


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = Backbone()
        self.heads = nn.Parameter(torch.randn(len(NAMES), WIDTH, WIDEST) * 0.02)
        self.biases = nn.Parameter(torch.zeros(len(NAMES), WIDEST))

    def forward(self, images, task, r=0, prompts=None):
        features = self.backbone(images, r, prompts)
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
def accuracy(model, task, images, labels, r=0, prompts=None):
    """prompts [layers,P,width] or None."""
    right = 0
    for at in range(0, len(images), 250):
        part = as_input(images[at : at + 250])
        mine = None if prompts is None else prompts[None].expand(len(part), -1, -1, -1)
        logits = model(part, torch.full((len(part),), task), r, mine)
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
    os.environ.setdefault("MASTER_PORT", "29512")
    distributed.init_process_group("gloo", rank=rank, world_size=processes)
    torch.manual_seed(SEED)
    model, mean = Model(), Model()
    mean.load_state_dict(model.state_dict())
    plain = [p for name, p in model.named_parameters() if p.ndim < 2 or "place" in name or "first" in name]
    others = [p for p in model.parameters() if not any(p is q for q in plain)]
    optimizer = torch.optim.AdamW(
        [{"params": others, "weight_decay": WEIGHT_DECAY}, {"params": plain, "weight_decay": 0}], lr=RATE, betas=(0.9, 0.98)
    )
    start = 0
    if os.path.exists(chosen.checkpoint):
        kept = torch.load(chosen.checkpoint, map_location="cpu", weights_only=False)
        model.load_state_dict(kept["model"])
        mean.load_state_dict(kept["mean"])
        optimizer.load_state_dict(kept["optimizer"])
        start = kept["step"]
    merged = np.random.default_rng([SEED, start])
    random = np.random.default_rng([SEED, start, rank])
    data = load(chosen.data)
    walks = [Walk(data[task], task, random) for task in range(len(NAMES))]
    shares = [share // processes for share in SHARES]
    task = torch.cat([torch.full((count,), at) for at, count in enumerate(shares)])
    said = saved = time.time()
    losses, hits = [], []
    for step in range(start, chosen.steps):
        progress = step / chosen.steps
        for group in optimizer.param_groups:
            group["lr"] = rate_at(progress)
        parts = [walk.next(count) for walk, count in zip(walks, shares)]
        images, labels = torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])
        r = int(merged.choice(MERGED, p=OFTEN_EARLY if progress < LATE else OFTEN_LATE))
        logits = model(images, task, r)
        loss = smoothed_loss(logits, labels, task)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        gradients = torch.cat([p.grad.reshape(-1) for p in model.parameters()])
        distributed.all_reduce(gradients)
        gradients /= processes
        at = 0
        for p in model.parameters():
            p.grad.copy_(gradients[at : at + p.numel()].view_as(p))
            at += p.numel()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
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
                print(name, {f"-{r}": round(float(accuracy(mean, at, images, labels, r)), 3) for r in (0, 8, 10)}, flush=True)
            said = time.time()


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("data")
    arguments.add_argument("checkpoint")
    arguments.add_argument("--steps", type=int, default=5000)
    arguments.add_argument("--processes", type=int, default=2)
    chosen = arguments.parse_args()
    multiprocessing.spawn(work, (chosen.processes, chosen), chosen.processes)


if __name__ == "__main__":
    main()
