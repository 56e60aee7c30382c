"""Where the time goes: engines read from any file, by ONNX node, against each other and over time."""
