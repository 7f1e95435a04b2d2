"""The one exception that a user is meant to see. Imports nothing, so that every module can raise it."""


class UserError(Exception):
    """A mistake of the user, told in one sentence that says what to do; the command line exits with 2."""
