"""Who is let in, before any page runs."""
