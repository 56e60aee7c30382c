"""The tabs of the workbench. Each shows one thing of a session and knows nothing of the others."""
