"""Content-free proof: canonical bytes, digests, chain, signatures and what a receipt may carry."""
