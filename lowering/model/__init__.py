"""The user's model: how it is read, what it is called, how it is quantised."""

from ethos_hil.lowering.model.torch_model import Method as Method
