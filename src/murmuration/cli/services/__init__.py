"""Commands for services and tasks that run: look into them, scale them, undo what was changed."""
