"""A click model on embedding tables, with made data: python examples/click_model.py

    paceline run --workers 2 --ps 2 --tables runs/clicks examples/click_model.py

Users see ads. Whether a user clicks depends on hidden traits of both, which the model learns as
rows of two tables. The data are made from a seed. Two runs of one process print the same numbers.
"""

import argparse

import paceline.embedding as pe
import torch
from paceline.torch import ElasticDataset, LeasedLoader

import paceline as pl

USERS, ADS, TRAITS = 2_000, 300, 4


class Clicks(torch.utils.data.Dataset):
    """Sample i: a user, the last three ads that the user saw, an ad, and whether it was clicked."""

    def __init__(self, samples: int, seed: int) -> None:
        traits = torch.Generator().manual_seed(1)  # the same for training and test
        users = torch.randn(USERS, TRAITS, generator=traits)
        ads = torch.randn(ADS, TRAITS, generator=traits)
        chance = torch.Generator().manual_seed(seed)
        self.user = torch.randint(USERS, (samples,), generator=chance)
        self.seen = torch.randint(ADS, (samples, 3), generator=chance)
        self.ad = torch.randint(ADS, (samples,), generator=chance)
        liking = (users[self.user] * ads[self.ad]).sum(1) + 0.3 * ads[self.seen, 0].sum(1)
        self.click = torch.bernoulli(torch.sigmoid(2 * liking), generator=chance)

    def __len__(self) -> int:
        return len(self.user)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, ...]:
        return self.user[index], self.seen[index], self.ad[index], self.click[index]


class Click(torch.nn.Module):
    """The liking of user and ad, and a small network over all rows."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        users = pe.Table("users", dim=dim, optimizer=pe.Adagrad(0.2), budget="64MiB", scale=0.3)
        ads = pe.Table("ads", dim=dim, optimizer=pe.Adagrad(0.2), scale=0.3)
        self.user = pe.Embedding(users)
        self.ad = pe.Embedding(ads)
        self.seen = pe.EmbeddingBag(ads, mode="mean")
        self.deep = torch.nn.Sequential(
            torch.nn.Linear(3 * dim, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1)
        )

    def forward(self, user: torch.Tensor, seen: torch.Tensor, ad: torch.Tensor) -> torch.Tensor:
        user, seen, ad = self.user(user), self.seen(seen), self.ad(ad)
        return (user * ad).sum(1) + self.deep(torch.cat([user, seen, ad], 1)).squeeze(1)


def auc(score: torch.Tensor, click: torch.Tensor) -> float:
    """How often a clicked sample scores higher than one that was not clicked."""
    rank = torch.empty(len(score))
    rank[score.argsort()] = torch.arange(1.0, len(score) + 1)
    clicked = click.sum().item()
    below = rank[click > 0].sum().item() - clicked * (clicked + 1) / 2
    return below / (clicked * (len(click) - clicked))


def evaluate(model: Click, data: Clicks) -> float:
    """The AUC on data that was not trained on. No key of it is added to a table."""
    model.eval()
    score = model(data.user, data.seen, data.ad).detach()
    model.train()
    return auc(score, data.click)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=60_000)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch", type=int, default=512)
    args = parser.parse_args()
    torch.manual_seed(0)
    model = Click(dim=8)
    opt = pe.Optimizer(model, dense=pe.Adam(2e-3))
    clicks, test = Clicks(args.samples, seed=2), Clicks(10_000, seed=3)
    loader = LeasedLoader(
        ElasticDataset(clicks, seed=7), name="clicks", batch_size=args.batch, epochs=args.epochs
    )
    print(f"before: AUC {evaluate(model, test):.4f}")
    for step, (user, seen, ad, click) in enumerate(loader, 1):
        loss = torch.nn.functional.binary_cross_entropy_with_logits(model(user, seen, ad), click)
        loss.backward()
        opt.step()
        pl.step(step, loss=loss.item())
        if step % 100 == 0:
            print(f"step {step}: loss {loss.item():.4f}")
    opt.pull()  # of other workers, too
    print(f"after: AUC {evaluate(model, test):.4f}")
    for table in opt.tables:
        counts = table.counts()
        print(f"table {table.name}: {counts['rows']} rows, {counts['bytes']} bytes")


if __name__ == "__main__":
    main()
