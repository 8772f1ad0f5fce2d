"""DINO's, SimCLR's and MoCo's augmentation in loops like theirs, and pytorch/examples' imagenet."""

import millrace
import pytest
import torch
from loader_data import torchvision_or_skip

torchvision = torchvision_or_skip()
import view_scripts as scripts  # noqa: E402
from torchvision import datasets, transforms  # noqa: E402


def line(loader, stage):
    return next(line for line in loader.explain().splitlines() if line.startswith(stage + ":"))


def networks(*sizes):
    torch.manual_seed(1)
    return [
        torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(4), torch.nn.Flatten(), torch.nn.Linear(48, 8))
        for _ in sizes
    ]


def train(loader, step, model):
    """The losses of one epoch of `step(batch)`."""
    optimizer = torch.optim.SGD([weight for part in model for weight in part.parameters()], 0.01)
    losses = []
    for batch in loader:
        loss = step(batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses and all(map(torch.isfinite, torch.tensor(losses)))
    return losses


def make(root, transform, **options):
    torch.manual_seed(3)
    dataset = datasets.ImageFolder(root, transform=transform)
    options = {"batch_size": 4, "shuffle": True, "num_workers": 2, "drop_last": True} | options
    loader = torch.utils.data.DataLoader(dataset, **options)
    assert isinstance(loader, millrace.DataLoader)
    return loader


def check_native(loader, views):
    assert loader.stats()["engine"] == "threads"
    told = line(loader, "transform")
    assert told.startswith("transform: native") and f": {views} views (" in told


def test_dino(root, installed):
    transform = scripts.DataAugmentationDINO((0.4, 1.0), (0.05, 0.4), 6)
    loader = make(root, transform)
    student, teacher = model = networks(1, 2)

    def step(batch):
        images, _ = batch
        assert [tuple(image.shape) for image in images] == [(4, 3, 224, 224)] * 2 + [(4, 3, 96, 96)] * 6
        with torch.no_grad():
            targets = [teacher(view).softmax(-1) for view in images[:2]]
        outputs = [student(view).log_softmax(-1) for view in images]
        pairs = [(t, s) for i, t in enumerate(targets) for j, s in enumerate(outputs) if i != j]
        return sum(-(t * s).sum(-1).mean() for t, s in pairs) / len(pairs)

    assert len(train(loader, step, model)) == 3
    check_native(loader, 8)


def test_simclr(root, installed):
    transform = scripts.ContrastiveLearningViewGenerator(scripts.simclr_pipeline(32), 2)
    loader = make(root, transform)
    (encoder,) = model = networks(1)

    def step(batch):
        images, _ = batch
        images = torch.cat(images, dim=0)
        assert images.shape == (8, 3, 32, 32)
        features = torch.nn.functional.normalize(encoder(images), dim=1)
        similarity = features @ features.T - 9 * torch.eye(8)
        labels = (torch.arange(8) + 4) % 8
        return torch.nn.functional.cross_entropy(similarity / 0.07, labels)

    assert len(train(loader, step, model)) == 3
    check_native(loader, 2)


def test_moco(root, installed):
    loader = make(root, scripts.TwoCropsTransform(scripts.moco_pipeline(32)), sampler=None, pin_memory=False)
    query, key = model = networks(1, 2)

    def step(batch):
        images, _ = batch
        return torch.nn.functional.mse_loss(query(images[0]), key(images[1]))

    assert len(train(loader, step, model)) == 3
    check_native(loader, 2)


@pytest.mark.parametrize("native", ["auto", "never"])
def test_views_in_a_collate_of_the_scripts_own(root, native):
    """The samples that it gets are arranged alike, whatever makes them."""
    torch.manual_seed(3)
    dataset = datasets.ImageFolder(root, scripts.TwoCropsTransform(scripts.moco_pipeline(32)))
    loader = millrace.DataLoader(dataset, 4, native=native, collate_fn=scripts.collate_views)
    batches = list(loader)
    assert [(tuple(one.shape), tuple(other.shape)) for one, other, _ in batches[:3]] == [
        ((4, 3, 32, 32),) * 2
    ] * 3
    assert batches[-1][2].shape == (1,)


def test_the_loop_of_the_imagenet_example(root, installed):
    normalize = transforms.Normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225])
    first = [transforms.RandomResizedCrop(64), transforms.RandomHorizontalFlip()]
    training = make(root, transforms.Compose([*first, transforms.ToTensor(), normalize]), drop_last=False)
    last = [transforms.Resize(72), transforms.CenterCrop(64), transforms.ToTensor(), normalize]
    evaluation = make(root, transforms.Compose(last), shuffle=False, drop_last=False)
    (network,) = model = networks(1)

    def step(batch):
        images, target = batch
        return torch.nn.functional.cross_entropy(network(images), target)

    assert len(train(training, step, model)) == 4
    with torch.no_grad():
        labels = [label for images, target in evaluation for label in target.tolist() if len(network(images))]
    assert labels == [label for _, label in evaluation.dataset.samples]
    for loader in (training, evaluation):
        assert loader.stats()["engine"] == "threads"
        assert line(loader, "transform").startswith("transform: native")
