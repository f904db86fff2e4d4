"""The model, the training code and the data of the course "Building a Transformer".

One concept, one file: a reader who has finished a chapter can open the file of its name.
Importing the package itself imports nothing else, so that tools can ask for its version without
loading torch.
"""

__version__ = "0.1.0"
