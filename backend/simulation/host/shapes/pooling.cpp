// Operators on images: pooling, sampling, shuffling of pixels.
#include "backend/simulation/host/shapes/rule.h"

namespace torch_openreg::shapes {

namespace {

// (self, output_size)
bool adaptive_average(const Call& call, Shapes& outputs) {
  const at::Tensor& self = call.tensor(0);
  const at::DimVector size = call.integers(1);
  if (!is_contiguous(self) || self.dim() < 3 ||
      (self.dim() != static_cast<int64_t>(size.size()) + 1 &&
       self.dim() != static_cast<int64_t>(size.size()) + 2)) {
    return false;
  }
  at::DimVector sizes(self.sizes());
  const size_t kept = sizes.size() - size.size();
  for (size_t i = 0; i < size.size(); ++i) {
    if (size[i] <= 0) return false;
    sizes[kept + i] = size[i];
  }
  outputs.push_back(contiguous(sizes));
  return true;
}

// (grad_output, self)
bool adaptive_average_backward(const Call& call, Shapes& outputs) {
  const at::Tensor& grad = call.tensor(0);
  const at::Tensor& self = call.tensor(1);
  if (!is_contiguous(grad) || !is_contiguous(self) || self.dim() < 3 ||
      grad.dim() != self.dim() || grad.size(-3) != self.size(-3) ||
      grad.size(0) != self.size(0)) {
    return false;
  }
  outputs.push_back(contiguous(self.sizes()));
  return true;
}

// (input, grid, interpolation_mode, padding_mode, align_corners)
bool grid_sampler_2d(const Call& call, Shapes& outputs) {
  const at::Tensor& input = call.tensor(0);
  const at::Tensor& grid = call.tensor(1);
  if (!is_contiguous(input) || !is_contiguous(grid) || input.dim() != 4 ||
      grid.dim() != 4 || grid.size(0) != input.size(0) || grid.size(3) != 2 ||
      input.scalar_type() != grid.scalar_type()) {
    return false;
  }
  const int64_t sizes[] = {input.size(0), input.size(1), grid.size(1),
                           grid.size(2)};
  outputs.push_back(contiguous(sizes));
  return true;
}

// (self, factor)
bool pixel_shuffle(const Call& call, Shapes& outputs) {
  const at::Tensor& self = call.tensor(0);
  const int64_t factor = call.integer(1);
  if (!is_contiguous(self) || self.dim() < 3 || factor <= 0 ||
      self.size(-3) % (factor * factor) != 0) {
    return false;
  }
  at::DimVector sizes(self.sizes());
  const size_t last = sizes.size();
  sizes[last - 3] /= factor * factor;
  sizes[last - 2] *= factor;
  sizes[last - 1] *= factor;
  outputs.push_back(contiguous(sizes));
  return true;
}

bool pixel_unshuffle(const Call& call, Shapes& outputs) {
  const at::Tensor& self = call.tensor(0);
  const int64_t factor = call.integer(1);
  if (!is_contiguous(self) || self.dim() < 3 || factor <= 0 ||
      self.size(-2) % factor != 0 || self.size(-1) % factor != 0) {
    return false;
  }
  at::DimVector sizes(self.sizes());
  const size_t last = sizes.size();
  sizes[last - 3] *= factor * factor;
  sizes[last - 2] /= factor;
  sizes[last - 1] /= factor;
  outputs.push_back(contiguous(sizes));
  return true;
}

constexpr NamedRule kRules[] = {
    {"_adaptive_avg_pool2d", &adaptive_average},
    {"_adaptive_avg_pool2d_backward", &adaptive_average_backward},
    {"_adaptive_avg_pool3d", &adaptive_average},
    {"_adaptive_avg_pool3d_backward", &adaptive_average_backward},
    {"grid_sampler_2d", &grid_sampler_2d},
    {"pixel_shuffle", &pixel_shuffle},
    {"pixel_unshuffle", &pixel_unshuffle},
};

}  // namespace

std::span<const NamedRule> pooling_rules() { return kRules; }

}  // namespace torch_openreg::shapes
