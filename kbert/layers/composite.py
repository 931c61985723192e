"""What layers that are made of layers share."""

from typing import Any

import keras


class CompositeLayer(keras.layers.Layer):
    """A layer whose children are frozen with it, however it is made.

    Keras hands `trainable = False` to the children that a layer has when it is
    set. A constructor's argument, which is also how a saved layer comes back,
    is set before there are any: they would go on training in a layer that says
    it does not.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute; a child of a frozen layer is frozen."""
        super().__setattr__(name, value)
        if isinstance(value, keras.layers.Layer) and not self.trainable:
            value.trainable = False
