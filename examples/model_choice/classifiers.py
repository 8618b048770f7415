"""A small classifier: does a vehicle or a living being stand in the way?"""

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from pytest_semcov import classifier_from_module

CLASSES = ["vehicle", "living"]
CLASS_OF = {"car": "vehicle", "truck": "vehicle", "person": "living", "deer": "living"}
"""What the data set calls them → what the models call them."""


def train_classifier(scenes, *, seed, name, steps=400, batch=32):
    """Train a network on scenes from scratch (about 15 s on one core) and return a model under test."""
    images = torch.stack([pixels(sample.load()) for sample in scenes])
    targets = torch.tensor([CLASSES.index(CLASS_OF[sample.label]) for sample in scenes])
    draws = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = new_network()
        optimizer = torch.optim.AdamW(network.parameters(), weight_decay=0.01)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=4e-3, total_steps=steps)
        for _ in range(steps):
            chosen = torch.randint(len(images), (batch,), generator=draws)
            mirrored = torch.rand(batch, 1, 1, 1, generator=draws) < 0.5
            seen = torch.where(mirrored, images[chosen].flip(3), images[chosen])
            optimizer.zero_grad()
            cross_entropy(network(seen), targets[chosen]).backward()
            optimizer.step()
            schedule.step()
    return classifier_from_module(network.eval(), classes=CLASSES, preprocess=pixels, name=name)


def new_network():
    """Return a network of four convolutions that looks for the strongest sign anywhere in the image."""

    def layer(channels, more, width=3, stride=1):
        convolution = nn.Conv2d(channels, more, width, stride, padding=width // 2, bias=False)
        return [convolution, nn.BatchNorm2d(more), nn.ReLU()]

    return nn.Sequential(
        *layer(3, 16, width=5, stride=2),
        *layer(16, 32),
        nn.MaxPool2d(2),
        *layer(32, 48),
        nn.MaxPool2d(2),
        *layer(48, 64),
        nn.AdaptiveMaxPool2d(1),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(64, len(CLASSES)),
    )


def pixels(image):
    """Return an image as ``(3, height, width)``, about -1.6 to 2.4."""
    return torch.from_numpy((np.asarray(image, dtype=np.float32).transpose(2, 0, 1) / 255 - 0.4) / 0.25)
