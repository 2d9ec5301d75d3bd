"""The web page as files: built from `front/`, served by a master and embedded in reports."""
