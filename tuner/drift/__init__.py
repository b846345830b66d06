"""After deployment: has what a study was tuned on changed, and is a new study worth it?"""
