"""How the rows of a table follow their gradients. A row without a gradient does not change."""

from dataclasses import dataclass

from paceline._base import arguments
from paceline._native import OptimizerSpec


def _number(where: str, name: str, value: object, most: float = 1e30) -> float:
    return arguments.number(
        where, name, value, least=0.0, most=most, wanted=f"a number, 0 to {most:g}",
        fix=f"{name}=0.01")


@dataclass(frozen=True)
class SGD:
    """`row -= rate * gradient`: `pe.SGD(0.1)`."""

    rate: float = 0.01

    def spec(self) -> OptimizerSpec:
        """As the tables take it."""
        return _spec("sgd", rate=_number("SGD", "rate", self.rate))


@dataclass(frozen=True)
class Adagrad:
    """torch.optim.Adagrad of the rows that a batch touches: `pe.Adagrad(0.05)`.

    A row keeps a sum of squares for each of its values; the first one is `initial`.
    """

    rate: float = 0.01
    initial: float = 0.0
    epsilon: float = 1e-10

    def spec(self) -> OptimizerSpec:
        """As the tables take it."""
        return _spec(
            "adagrad",
            rate=_number("Adagrad", "rate", self.rate),
            initial=_number("Adagrad", "initial", self.initial),
            epsilon=_number("Adagrad", "epsilon", self.epsilon),
        )


@dataclass(frozen=True)
class Adam:
    """torch.optim.Adam of the rows that a batch touches: `pe.Adam(1e-3)`.

    A row counts its own steps, so a rare key begins with large steps, as a new model does.
    """

    rate: float = 0.001
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-8

    def spec(self) -> OptimizerSpec:
        """As the tables take it."""
        beta1, beta2 = self.betas
        return _spec(
            "adam",
            rate=_number("Adam", "rate", self.rate),
            beta1=_number("Adam", "betas[0]", beta1, 0.999999),
            beta2=_number("Adam", "betas[1]", beta2, 0.999999),
            epsilon=_number("Adam", "epsilon", self.epsilon),
        )


Rule = SGD | Adagrad | Adam


def rule(where: str, name: str, value: object) -> Rule:
    """`value` if it is one of these optimizers, else an ArgumentError."""
    if isinstance(value, (SGD, Adagrad, Adam)):
        return value
    raise arguments.refuse(
        where, name, value, "pe.SGD, pe.Adagrad or pe.Adam", f"{name}=pe.Adagrad(0.05)")


def _spec(name: str, **numbers: float) -> OptimizerSpec:
    spec = OptimizerSpec()
    spec.name = name
    for field, number in numbers.items():
        setattr(spec, field, number)
    return spec
