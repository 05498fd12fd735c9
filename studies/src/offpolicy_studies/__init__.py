"""The studies of `offpolicy`: each is a module with `Args`, `reproduce` and `show`, declared in `catalog`."""
