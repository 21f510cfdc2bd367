"""Operations on tensors: shape rule, dtype rule, kernels and gradient of each."""
