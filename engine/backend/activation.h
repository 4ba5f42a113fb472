// The activation functions of feed-forward layers.
#pragma once

namespace ftune {

enum class Activation {
  kSilu,      // x * sigmoid(x)
  kGeluTanh,  // 0.5 x (1 + tanh(sqrt(2 / π) (x + 0.044715 x³))): "gelu_new", "gelu_pytorch_tanh"
  kGelu,      // 0.5 x (1 + erf(x / √2)) (Hendrycks & Gimpel 2016)
};

}  // namespace ftune
