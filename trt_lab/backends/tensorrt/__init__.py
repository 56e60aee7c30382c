"""TensorRT 10.x and 11.x, and what `tensorrt_rtx` shares with them. The only home of the `tensorrt` library."""
