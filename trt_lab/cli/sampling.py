"""The options that say what a model is fed, written once for all commands that run one."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import get_type_hints

from trt_lab.cli.arguments import (
    EdgesOption,
    ImageLayoutOption,
    ImageMeanOption,
    ImageSizeOption,
    ImageStdOption,
    InputsOption,
    SamplesOption,
    SeedOption,
    ShapesOption,
)
from trt_lab.cli.images import Images, check_given


@dataclass(frozen=True)
class SampleOptions:
    """Samples as the command line asks for them: a field is an option."""

    shapes: ShapesOption = None
    inputs: InputsOption = None
    samples: SamplesOption = 4
    seed: SeedOption = 0
    edges: EdgesOption = False
    image_size: ImageSizeOption = None
    image_mean: ImageMeanOption = None
    image_std: ImageStdOption = None
    image_layout: ImageLayoutOption = None

    def check(self) -> Images | None:
        """How images become samples, None without images. Raises UsageError when options contradict each other."""
        images = Images.of(self.image_size, self.image_mean, self.image_std, self.image_layout)
        check_given(self.inputs, images, edges=self.edges)
        return images

    @property
    def is_default(self) -> bool:
        """Whether nothing was asked for, so that a built-in model keeps its own samples."""
        return self.inputs is None and not self.edges and (self.samples, self.seed) == (4, 0)


def spread(run: Callable[..., int]) -> Callable[..., int]:
    """A command whose parameter of type `SampleOptions` is one option for each of its fields.

    typer reads options from a signature, so the signature of the result has them in the place of that parameter.
    """
    hints = get_type_hints(run, include_extras=True)
    name = next(name for name, kind in hints.items() if kind is SampleOptions)
    inner = get_type_hints(SampleOptions, include_extras=True)
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(run).parameters.values():
        shown = (
            [(field.name, inner[field.name], field.default) for field in fields(SampleOptions)]
            if parameter.name == name
            else [(parameter.name, hints[parameter.name], parameter.default)]
        )
        parameters += [
            inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, default=d, annotation=a) for n, a, d in shown
        ]

    def command(**values: object) -> int:
        given = {field.name: values.pop(field.name) for field in fields(SampleOptions) if field.name in values}
        return run(**values, **{name: SampleOptions(**given)})  # pyright: ignore[reportArgumentType]  # typer checked them

    command.__name__, command.__doc__, command.__module__ = run.__name__, run.__doc__, run.__module__
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters} | {"return": int}
    command.__signature__ = inspect.Signature(parameters)  # pyright: ignore[reportFunctionMemberAccess]
    return command
