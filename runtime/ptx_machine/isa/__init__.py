"""The instructions: a file for each family, with the forms that PTX has and how they become rows."""
