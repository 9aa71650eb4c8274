"""Networks for points, graphs, tables and coordinates."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional


class PointNet(nn.Module):
    """The same layers for each point, then the largest value of each feature."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(3, 32, 1), nn.BatchNorm1d(32), nn.ReLU(), nn.Conv1d(32, 64, 1), nn.BatchNorm1d(64), nn.ReLU()
        )
        self.head = nn.Linear(64, 10)

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(points).amax(-1))


class MessagePassing(nn.Module):
    """Twelve nodes, 20 edges as pairs of indices: messages are summed where they arrive, and a cell keeps the sums."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.message = nn.Linear(6, 12), nn.Linear(24, 12)
        self.cell, self.head = nn.GRUCell(12, 12), nn.Linear(12, 3)

    def forward(self, nodes: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        value = torch.tanh(self.enter(nodes))
        start, end = edges.unbind(0)
        sent = torch.relu(self.message(torch.cat([value[start], value[end]], 1)))
        arrived = torch.zeros_like(value).index_add(0, end, sent)
        return self.head(self.cell(arrived, value)).mean(0, keepdim=True)


class GraphAttention(nn.Module):
    """Each node attends to its neighbours, which a matrix of truth values names."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.head = nn.Linear(6, 16), nn.Linear(16, 3)
        self.left, self.right = nn.Linear(16, 1), nn.Linear(16, 1)

    def forward(self, nodes: torch.Tensor, neighbours: torch.Tensor) -> torch.Tensor:
        value = self.enter(nodes)
        scores = functional.leaky_relu(self.left(value) + self.right(value).transpose(0, 1), 0.2)
        near = neighbours | torch.eye(nodes.shape[0], dtype=torch.bool)
        shares = torch.softmax(torch.where(near, scores, float("-inf")), -1)
        return self.head(functional.elu(shares @ value))


class Pillars(nn.Module):
    """Points gathered in pillars, the largest of each, laid out on a plane, and convolved: PointPillars."""

    def __init__(self) -> None:
        super().__init__()
        self.points, self.body = nn.Linear(5, 12), nn.Sequential(nn.Conv2d(12, 16, 3, 2, 1), nn.ReLU())
        self.head = nn.Conv2d(16, 9, 1)

    def forward(self, pillars: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        value = torch.relu(self.points(pillars)).amax(1)
        plane = torch.zeros(16 * 16, 12).index_copy(0, places, value)
        return self.head(self.body(plane.t().reshape(1, 12, 16, 16)))


class ClickRate(nn.Module):
    """A recommender: bags of embeddings, dense features, and the products of all pairs of them, as in DLRM."""

    pairs: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.bags = nn.ModuleList([nn.EmbeddingBag(30, 8, mode="sum") for _ in range(3)])
        self.dense, self.top = nn.Sequential(nn.Linear(6, 8), nn.ReLU()), nn.Linear(8 + 6, 1)
        rows, columns = torch.triu_indices(4, 4, 1)
        self.register_buffer("pairs", rows * 4 + columns)

    def forward(self, dense: torch.Tensor, *kinds: torch.Tensor) -> torch.Tensor:
        value = self.dense(dense)
        bags = [bag(which) for bag, which in zip(self.bags, kinds, strict=True)]
        vectors = torch.stack([value, *bags], 1)
        products = torch.bmm(vectors, vectors.transpose(1, 2)).flatten(1)[:, self.pairs]
        return torch.sigmoid(self.top(torch.cat([value, products], 1)))


class Factors(nn.Module):
    """A recommender by factors: a user, an item and their context, in one table with offsets."""

    offsets: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("offsets", torch.tensor([0, 20, 50]))
        self.table, self.weights = nn.Embedding(60, 8), nn.Embedding(60, 1)
        self.deep = nn.Sequential(nn.Linear(24, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        features = features + self.offsets
        vectors = self.table(features)
        crossed = vectors.sum(1).square() - vectors.square().sum(1)
        likely = self.weights(features).sum(1) + crossed.sum(1, keepdim=True) / 2
        return torch.sigmoid(likely + self.deep(vectors.flatten(1)))


class Radiance(nn.Module):
    """Colours along rays: sines of the coordinates, a dense net, and what is seen through what is before (NeRF)."""

    rates: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rates", torch.tensor([1.0, 2.0, 4.0]))
        self.body = nn.Sequential(nn.Linear(18, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4))

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        angles = (points.unsqueeze(-1) * self.rates).flatten(-2)
        value = self.body(torch.cat([angles.sin(), angles.cos()], -1))
        density, colour = functional.softplus(value[..., :1]), torch.sigmoid(value[..., 1:])
        passed = torch.exp(-0.1 * (torch.cumsum(density, -2) - density))
        return (passed * (1 - torch.exp(-0.1 * density)) * colour).sum(-2)


class Splines(nn.Module):
    """Learned curves on each edge, as sums of bumps, in place of weights: a Kolmogorov-Arnold network."""

    centres: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("centres", torch.linspace(-1, 1, 5))
        self.first, self.second = nn.Linear(8 * 5, 8), nn.Linear(8 * 5, 3)
        self.base = nn.Linear(8, 8)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        value = torch.tanh(self.first(self._bumps(features)) + self.base(functional.silu(features)))
        return self.second(self._bumps(value))

    def _bumps(self, value: torch.Tensor) -> torch.Tensor:
        return torch.exp(-((value.unsqueeze(-1) - self.centres) * 2).square()).flatten(-2)


class Siamese(nn.Module):
    """Two pictures, one network, and the cosine of the angle between what it says of them."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 8, 3, 2), nn.BatchNorm2d(8), nn.LeakyReLU(0.1), nn.Conv2d(8, 16, 3, 2), nn.AdaptiveAvgPool2d(2)
        )
        self.head = nn.Linear(64, 16)

    def forward(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        one, two = (self.head(self.body(image).flatten(1)) for image in (first, second))
        return functional.cosine_similarity(one, two)


class EdgeConvolution(nn.Module):
    """Each point with its four nearest, found by their distances, as in DGCNN."""

    def __init__(self) -> None:
        super().__init__()
        self.edges, self.head = nn.Sequential(nn.Linear(6, 16), nn.LeakyReLU(0.2)), nn.Linear(16, 5)

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        lengths = points.square().sum(-1)
        distances = lengths.unsqueeze(2) + lengths.unsqueeze(1) - 2 * points @ points.transpose(1, 2)
        nearest = torch.topk(-distances, 4, -1)[1]
        near = points[0][nearest]
        apart = torch.cat([points.unsqueeze(2).expand_as(near), near - points.unsqueeze(2)], -1)
        return self.head(self.edges(apart).amax(2).amax(1))
