/* What the host and the kernels of this example agree on: a network with one
 * hidden layer, y = v . tanh(w x + b) + c, fitted to points by gradient
 * descent. */
#ifndef TRAIN_KERNELS_H
#define TRAIN_KERNELS_H

enum { HIDDEN = 16, POINTS = 256 };

struct network {
  float w[HIDDEN], b[HIDDEN], v[HIDDEN], c;
};

/* All pointers are device memory. */
struct forward_args {
  const struct network* net;
  const float* x; /* POINTS */
  float* hidden;  /* POINTS x HIDDEN */
  float* y;       /* POINTS */
};

struct backward_args {
  const struct network* net;
  const float* x;
  const float* target; /* POINTS */
  const float* hidden;
  const float* y;
  struct network* grad;
  float* loss; /* one number: the mean of the squared errors */
};

struct descend_args {
  struct network* net;
  const struct network* grad;
  float rate;
};

#endif
