"""Quantised models: what each Q/DQ pair costs, which scales are bad, which layers bear quantisation and which do not."""
