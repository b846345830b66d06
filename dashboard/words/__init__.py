"""Sentences and tables of words that pages and reports share. Knows no Streamlit."""
