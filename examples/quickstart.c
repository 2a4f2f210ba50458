/* The quickstart in C: one kernel for the epilogue of a layer, on the CPU device. Every call's status is checked. */
#include <stdio.h>
#include <stdlib.h>

#include <epifuse/epifuse.h>

enum { IMAGES = 8, CHANNELS = 16, HEIGHT = 32, WIDTH = 32, ELEMENTS = IMAGES * CHANNELS * HEIGHT * WIDTH };

static void check(epifuse_status status) {
  if (status == EPIFUSE_OK) return;
  fprintf(stderr, "%s\n", epifuse_last_error());
  exit(1);
}

int main(void) {
  /* The epilogue, written once, without shapes or types. `input` states the order in which a launch gives operands. */
  epifuse_epilogue* tail = NULL;
  check(epifuse_epilogue_parse("input x, bias, scale; sigmoid((x + bias) * scale)", &tail));

  /* The tensors: eight images of 16 channels, and one bias and one scale per channel. */
  static float x[ELEMENTS], bias[CHANNELS], scale[CHANNELS];
  const int64_t images[] = {IMAGES, CHANNELS, HEIGHT, WIDTH}, channels[] = {CHANNELS, 1, 1};
  epifuse_tensor inputs[3];
  for (int i = 0; i < ELEMENTS; ++i) x[i] = 0.5F;
  for (int i = 0; i < CHANNELS; ++i) bias[i] = 1.5F, scale[i] = 0.25F;
  check(epifuse_tensor_dense(x, EPIFUSE_F32, 4, images, &inputs[0]));
  check(epifuse_tensor_dense(bias, EPIFUSE_F32, 3, channels, &inputs[1]));
  check(epifuse_tensor_dense(scale, EPIFUSE_F32, 3, channels, &inputs[2]));

  /* The launch broadcasts as NumPy does, and here works in place. */
  epifuse_engine* engine = NULL;
  check(epifuse_engine_create("cpu", &engine));
  epifuse_launch launch = {0};
  launch.outputs = &inputs[0];
  launch.output_count = 1;
  launch.inputs = inputs;
  launch.input_count = 3;
  check(epifuse_engine_launch(engine, tail, &launch));

  printf("%s on %s: y[0] = %.6f, expected 0.622459\n", epifuse_epilogue_text(tail), epifuse_engine_device(engine),
         x[0]);
  epifuse_engine_free(engine);
  epifuse_epilogue_free(tail);
  return 0;
}
