"""A small detector of vehicles and living beings, with the interface of torchvision's detectors."""

import numpy as np
import torch
from classifiers import CLASS_OF, CLASSES
from torch import nn
from torchvision.ops import batched_nms, clip_boxes_to_image, generalized_box_iou_loss, sigmoid_focal_loss

from pytest_semcov import detector_from_module

STRIDE = 4
"""The network answers once for so many pixels: is the centre of an object here, and how large is it?"""


class SmallDetector(nn.Module):
    """A one-stage detector without anchors, after FCOS (Tian et al. 2019), with one resolution."""

    def __init__(self):
        super().__init__()

        def layer(channels, more, width=3, stride=1):
            convolution = nn.Conv2d(channels, more, width, stride, padding=width // 2, bias=False)
            return [convolution, nn.BatchNorm2d(more), nn.ReLU()]

        self.features = nn.Sequential(
            *layer(3, 16, width=5, stride=2),
            *layer(16, 32, stride=2),
            *layer(32, 64),
            *layer(64, 64),
            *layer(64, 64),
        )
        self.scores = nn.Conv2d(64, len(CLASSES), 1)
        self.sides = nn.Conv2d(64, 4, 1)
        nn.init.constant_(self.scores.bias, -4.6)  # at first, 1 % everywhere: objects are rare

    def grids(self, images):
        """Return logits ``(n, classes, rows, columns)`` and boxes ``(n, rows, columns, 4)`` in pixels."""
        features = self.features((images - 0.4) / 0.25)
        sides = STRIDE * torch.exp(self.sides(features).clamp(-3, 3)).permute(0, 2, 3, 1)
        x, y = centres(*sides.shape[1:3])
        boxes = [x - sides[..., 0], y - sides[..., 1], x + sides[..., 2], y + sides[..., 3]]
        return self.scores(features), torch.stack(boxes, dim=-1)

    def forward(self, images):
        """Return ``boxes``, ``labels`` and ``scores`` for each image of a list, ``(3, h, w)``, 0 to 1."""
        logits, boxes = self.grids(torch.stack(list(images)))
        found = []
        for logit, box, image in zip(logits, boxes, images, strict=True):
            scores, cells = torch.sigmoid(logit).flatten(1).flatten().topk(60)
            cells_per_class = logit[0].numel()
            labels = cells // cells_per_class
            corners = clip_boxes_to_image(box.reshape(-1, 4)[cells % cells_per_class], image.shape[1:])
            kept = batched_nms(corners, scores, labels, iou_threshold=0.5)
            kept = kept[scores[kept] > 0.02]
            found.append({"boxes": corners[kept], "labels": labels[kept], "scores": scores[kept]})
        return found


def centres(rows, columns):
    """Return x ``(1, columns)`` and y ``(rows, 1)`` of the cells' centres in pixels."""
    return (torch.arange(columns)[None] + 0.5) * STRIDE, (torch.arange(rows)[:, None] + 0.5) * STRIDE


def wanted(objects, rows, columns):
    """Return what the network should answer: class per cell (-1: none) and box; small objects win."""
    classes = torch.full((rows, columns), -1)
    boxes = torch.zeros(rows, columns, 4)
    x, y = centres(rows, columns)
    for each in sorted(objects, key=lambda box: -(box.x1 - box.x0) * (box.y1 - box.y0)):
        near_x = (x - (each.x0 + each.x1) / 2).abs() <= max(STRIDE / 2, 0.2 * (each.x1 - each.x0))
        near_y = (y - (each.y0 + each.y1) / 2).abs() <= max(STRIDE / 2, 0.2 * (each.y1 - each.y0))
        classes[near_x & near_y] = CLASSES.index(CLASS_OF[each.label])
        boxes[near_x & near_y] = torch.tensor([each.x0, each.y0, each.x1, each.y1])
    return classes, boxes


def train_detector(scenes, *, seed, name, steps=400, batch=24):
    """Train a network on scenes from scratch (under a minute on one core) and return a model under test."""
    images = torch.stack([pixels(sample.load()) for sample in scenes])
    rows, columns = (side // STRIDE for side in images.shape[2:])
    answers = [wanted(sample.boxes, rows, columns) for sample in scenes]
    classes, boxes = (torch.stack(part) for part in zip(*answers, strict=True))
    draws = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = SmallDetector()
    optimizer = torch.optim.AdamW(network.parameters(), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=4e-3, total_steps=steps)
    for _ in range(steps):
        chosen = torch.randint(len(images), (batch,), generator=draws)
        seen, classes_there, boxes_there = images[chosen], classes[chosen], boxes[chosen]
        if torch.rand((), generator=draws) < 0.5:  # mirrored
            seen, classes_there, boxes_there = seen.flip(3), classes_there.flip(2), boxes_there.flip(2)
            boxes_there = boxes_there[..., [2, 1, 0, 3]] * torch.tensor([-1, 1, -1, 1])
            boxes_there = boxes_there + torch.tensor([seen.shape[3], 0, seen.shape[3], 0])
        logits, found = network.grids(seen)
        somewhere = classes_there >= 0
        targets = nn.functional.one_hot(classes_there.clamp(min=0), len(CLASSES)) * somewhere[..., None]
        loss = sigmoid_focal_loss(logits.permute(0, 2, 3, 1), targets.float(), reduction="sum")
        loss = loss + generalized_box_iou_loss(found[somewhere], boxes_there[somewhere], reduction="sum")
        optimizer.zero_grad()
        (loss / somewhere.sum().clamp(min=1)).backward()
        optimizer.step()
        schedule.step()
    return detector_from_module(network.eval(), classes=CLASSES, name=name)


def pixels(image):
    """Return an image as ``(3, height, width)``, 0 to 1."""
    return torch.from_numpy(np.asarray(image, dtype=np.float32).transpose(2, 0, 1) / 255)
