"""What measures, reports and advises: beside the loader, which works without it. Its public names are
those of `millrace`, imported when they are first asked for.
"""
