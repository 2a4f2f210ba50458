/* The C interface from C99, on the CPU device: what it computes, and that nothing a caller gives it crashes. Each check
 * that fails prints its line; the exit code is the number of them. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <epifuse/epifuse.h>

static int failures = 0;

#define EXPECT(condition)                                                                                  \
  do {                                                                                                     \
    if (!(condition)) {                                                                                    \
      printf("%s:%d: not so: %s; last error: %s\n", __FILE__, __LINE__, #condition, epifuse_last_error()); \
      ++failures;                                                                                          \
    }                                                                                                      \
  } while (0)

#define EXPECT_ERROR(call, expected_status, words)         \
  do {                                                     \
    EXPECT((call) == (expected_status));                   \
    EXPECT(strstr(epifuse_last_error(), (words)) != NULL); \
  } while (0)

static epifuse_tensor dense(void* data, epifuse_dtype dtype, int32_t rank, const int64_t* shape) {
  epifuse_tensor tensor;
  EXPECT(epifuse_tensor_dense(data, dtype, rank, shape, &tensor) == EPIFUSE_OK);
  return tensor;
}

static epifuse_epilogue* parsed(const char* text) {
  epifuse_epilogue* epilogue = NULL;
  EXPECT(epifuse_epilogue_parse(text, &epilogue) == EPIFUSE_OK);
  return epilogue;
}

static void names_of_an_epilogue(void) {
  epifuse_epilogue* tail = parsed("input x, bias; scalar s; y = x * s + bias; return y, amax(y, -1)");
  EXPECT(epifuse_epilogue_input_count(tail) == 2 && epifuse_epilogue_scalar_count(tail) == 1);
  EXPECT(epifuse_epilogue_result_count(tail) == 2);
  EXPECT(strcmp(epifuse_epilogue_input_name(tail, 1), "bias") == 0);
  EXPECT(strcmp(epifuse_epilogue_scalar_name(tail, 0), "s") == 0);
  EXPECT(strcmp(epifuse_epilogue_result_name(tail, 0), "y") == 0);
  EXPECT(epifuse_epilogue_input_name(tail, 2) == NULL && epifuse_epilogue_result_name(tail, (size_t)-1) == NULL);
  epifuse_epilogue* again = parsed(epifuse_epilogue_text(tail));
  EXPECT(strcmp(epifuse_epilogue_text(again), epifuse_epilogue_text(tail)) == 0);
  epifuse_epilogue_free(again);

  const int64_t rows[] = {3, 4}, row[] = {4};
  epifuse_tensor inputs[] = {dense(NULL, EPIFUSE_F16, 2, rows), dense(NULL, EPIFUSE_F32, 1, row)}, results[2];
  EXPECT(epifuse_epilogue_results(tail, inputs, 2, results) == EPIFUSE_OK);
  EXPECT(results[0].rank == 2 && results[0].shape[1] == 4 && results[0].strides[0] == 4);
  EXPECT(results[1].rank == 1 && results[1].shape[0] == 3);
  EXPECT(results[0].dtype == EPIFUSE_F32 && results[1].dtype == EPIFUSE_F32); /* of f16 and f32 */
  epifuse_epilogue_free(tail);
}

static void a_launch(epifuse_engine* engine) {
  epifuse_epilogue* tail = parsed("input x, bias; scalar s; y = x * s + bias; return y, amax(y, -1)");
  float x[] = {1, 2, 3, 4, 5, 6}, bias[] = {10, 20, 30}, most[2] = {0};
  double y[6] = {0};
  const double scale = 2;
  const int64_t rows[] = {2, 3}, row[] = {3}, column[] = {2};
  epifuse_tensor inputs[] = {dense(x, EPIFUSE_F32, 2, rows), dense(bias, EPIFUSE_F32, 1, row)};
  epifuse_tensor outputs[] = {dense(y, EPIFUSE_F64, 2, rows), dense(most, EPIFUSE_F32, 1, column)};
  epifuse_launch launch = {0};
  launch.outputs = outputs;
  launch.output_count = 2;
  launch.inputs = inputs;
  launch.input_count = 2;
  launch.scalars = &scale;
  launch.scalar_count = 1;
  size_t bytes = 1;
  EXPECT(epifuse_engine_prepare(engine, tail, &launch) == EPIFUSE_OK);
  EXPECT(epifuse_engine_workspace_bytes(engine, tail, &launch, &bytes) == EPIFUSE_OK && bytes == 0);
  EXPECT(epifuse_engine_launch(engine, tail, &launch) == EPIFUSE_OK);
  EXPECT(epifuse_engine_synchronize(engine, NULL) == EPIFUSE_OK);
  const double expected[] = {12, 24, 36, 18, 30, 42};
  for (int i = 0; i < 6; ++i) EXPECT(y[i] == expected[i]);
  EXPECT(most[0] == 36 && most[1] == 42);

  /* Strides: the transposed view of y. */
  outputs[0].strides[0] = 1;
  outputs[0].strides[1] = 2;
  EXPECT(epifuse_engine_launch(engine, tail, &launch) == EPIFUSE_OK && y[1] == 18 && y[2] == 24);

  /* What does not fit writes nothing. */
  y[0] = -1;
  launch.scalar_count = 0;
  EXPECT_ERROR(epifuse_engine_launch(engine, tail, &launch), EPIFUSE_INVALID_ARGUMENT, "scalar");
  launch.scalar_count = 1;
  launch.scalars = NULL;
  EXPECT_ERROR(epifuse_engine_launch(engine, tail, &launch), EPIFUSE_INVALID_ARGUMENT, "the list of scalars is NULL");
  launch.scalars = &scale;
  launch.input_count = 1;
  EXPECT_ERROR(epifuse_engine_launch(engine, tail, &launch), EPIFUSE_INVALID_ARGUMENT,
               "takes 2 operands (x, bias), but 1 was given");
  launch.input_count = 2;
  inputs[1].rank = 9;
  EXPECT_ERROR(epifuse_engine_launch(engine, tail, &launch), EPIFUSE_INVALID_ARGUMENT, "input 1 has 9 dimensions");
  inputs[1].rank = 1;
  inputs[1].dtype = 18;
  EXPECT_ERROR(epifuse_engine_launch(engine, tail, &launch), EPIFUSE_INVALID_ARGUMENT, "input 1 has the type 18");
  inputs[1].dtype = EPIFUSE_F32;
  inputs[0].data = NULL;
  EXPECT(epifuse_engine_launch(engine, tail, &launch) == EPIFUSE_INVALID_ARGUMENT);
  inputs[0].data = x;
  launch.outputs = NULL;
  EXPECT_ERROR(epifuse_engine_launch(engine, tail, &launch), EPIFUSE_INVALID_ARGUMENT, "output is NULL");
  EXPECT(y[0] == -1);
  epifuse_epilogue_free(tail);
}

/* Swapping the operands of a sum does not swap what a launch means. */
static void an_order_by_names(epifuse_engine* engine) {
  const char* const order[] = {"x", "bias"};
  const char* const twice[] = {"x", "x"};
  const char* const unknown[] = {"x", "bais"};
  float x[] = {1, 2}, bias[] = {10, 20}, y[2] = {0};
  const int64_t shape[] = {2};
  const epifuse_tensor inputs[] = {dense(x, EPIFUSE_F32, 1, shape), dense(bias, EPIFUSE_F32, 1, shape)};
  const epifuse_tensor output = dense(y, EPIFUSE_F32, 1, shape);
  const char* const chains[] = {"x - bias", "-bias + x"};
  epifuse_epilogue* none = NULL;
  for (int i = 0; i < 2; ++i) {
    epifuse_epilogue* written = parsed(chains[i]);
    epifuse_epilogue* tail = NULL;
    EXPECT(epifuse_epilogue_with_inputs(written, order, 2, &tail) == EPIFUSE_OK);
    EXPECT(strcmp(epifuse_epilogue_input_name(tail, 0), "x") == 0);
    EXPECT(strcmp(epifuse_epilogue_input_name(tail, 1), "bias") == 0);
    epifuse_launch launch = {0};
    launch.outputs = &output;
    launch.output_count = 1;
    launch.inputs = inputs;
    launch.input_count = 2;
    EXPECT(epifuse_engine_launch(engine, tail, &launch) == EPIFUSE_OK && y[0] == -9 && y[1] == -18);
    EXPECT_ERROR(epifuse_epilogue_with_inputs(written, twice, 2, &none), EPIFUSE_INVALID_ARGUMENT, "named twice");
    EXPECT_ERROR(epifuse_epilogue_with_inputs(written, unknown, 2, &none), EPIFUSE_INVALID_ARGUMENT, "'bias'");
    EXPECT_ERROR(epifuse_epilogue_with_inputs(written, order, 1, &none), EPIFUSE_INVALID_ARGUMENT, "is not named");
    EXPECT_ERROR(epifuse_epilogue_with_inputs(written, NULL, 2, &none), EPIFUSE_INVALID_ARGUMENT, "is NULL");
    EXPECT(none == NULL);
    epifuse_epilogue_free(tail);
    epifuse_epilogue_free(written);
  }
}

/* Nobody stated the order of x and bias: a call that lists tensors could mean either. */
static void an_order_that_nobody_stated(epifuse_engine* engine) {
  float x[] = {1, 2}, bias[] = {10, 20}, y[2] = {-1, -1};
  const int64_t shape[] = {2};
  const epifuse_tensor inputs[] = {dense(x, EPIFUSE_F32, 1, shape), dense(bias, EPIFUSE_F32, 1, shape)};
  const epifuse_tensor output = dense(y, EPIFUSE_F32, 1, shape);
  epifuse_tensor result;
  epifuse_launch launch = {0};
  launch.outputs = &output;
  launch.output_count = 1;
  launch.inputs = inputs;
  launch.input_count = 2;
  size_t bytes = 0;
  char* text = NULL;
  epifuse_epilogue* tail = parsed("bias + x");
  const char* const why =
      "operands are given by position, but nothing states the order of this chain's (bias, x): state it with "
      "epifuse_epilogue_with_inputs() or in the text: 'input bias, x; …'";
  EXPECT_ERROR(epifuse_engine_launch(engine, tail, &launch), EPIFUSE_INVALID_ARGUMENT, why);
  EXPECT_ERROR(epifuse_engine_prepare(engine, tail, &launch), EPIFUSE_INVALID_ARGUMENT, why);
  EXPECT_ERROR(epifuse_engine_workspace_bytes(engine, tail, &launch, &bytes), EPIFUSE_INVALID_ARGUMENT, why);
  EXPECT_ERROR(epifuse_epilogue_results(tail, inputs, 2, &result), EPIFUSE_INVALID_ARGUMENT, why);
  EXPECT_ERROR(epifuse_plan_text(tail, &launch, 90, &text), EPIFUSE_INVALID_ARGUMENT, why);
  EXPECT_ERROR(epifuse_cuda_source(tail, &launch, 90, &text), EPIFUSE_INVALID_ARGUMENT, why);
  EXPECT(y[0] == -1 && y[1] == -1 && text == NULL);
  epifuse_epilogue_free(tail);
  /* The text that an epilogue has keeps the order that was stated. */
  epifuse_epilogue* stated = parsed("input x, bias; x - bias");
  tail = parsed(epifuse_epilogue_text(stated));
  EXPECT(epifuse_engine_launch(engine, tail, &launch) == EPIFUSE_OK && y[0] == -9 && y[1] == -18);
  epifuse_epilogue_free(stated);
  epifuse_epilogue_free(tail);
}

static void a_result_in_an_operands_memory(epifuse_engine* engine) {
  epifuse_epilogue* tail = parsed("input cache, slots, x; return x, index_copy(cache, 0, slots, x * 2)");
  EXPECT(epifuse_epilogue_result_destination(tail, 0) == NULL && epifuse_epilogue_result_destination(tail, 2) == NULL);
  EXPECT(strcmp(epifuse_epilogue_result_destination(tail, 1), "cache") == 0);
  float cache[] = {1, 2, 3, 4}, x[] = {5, 6}, y[2] = {0};
  int64_t slots[] = {3, -1};
  const int64_t all[] = {4}, two[] = {2};
  const epifuse_tensor inputs[] = {dense(cache, EPIFUSE_F32, 1, all), dense(slots, EPIFUSE_I64, 1, two),
                                   dense(x, EPIFUSE_F32, 1, two)};
  const epifuse_tensor outputs[] = {dense(y, EPIFUSE_F32, 1, two), inputs[0]};
  epifuse_launch launch = {0};
  launch.outputs = outputs;
  launch.output_count = 2;
  launch.inputs = inputs;
  launch.input_count = 3;
  EXPECT(epifuse_engine_launch(engine, tail, &launch) == EPIFUSE_OK);
  EXPECT(cache[0] == 1 && cache[1] == 2 && cache[2] == 3 && cache[3] == 10 && y[1] == 6);
  epifuse_epilogue_free(tail);
}

static void what_is_no_argument(epifuse_engine* engine) {
  epifuse_epilogue* tail = NULL;
  epifuse_engine* other = NULL;
  epifuse_launch launch = {0};
  char* text = NULL;
  EXPECT_ERROR(epifuse_epilogue_parse("x +", &tail), EPIFUSE_INVALID_EXPRESSION, "column 4");
  EXPECT_ERROR(epifuse_epilogue_parse(NULL, &tail), EPIFUSE_INVALID_ARGUMENT, "the text of the chain is NULL");
  EXPECT_ERROR(epifuse_epilogue_parse("x + 1", NULL), EPIFUSE_INVALID_ARGUMENT, "is NULL");
  EXPECT(tail == NULL);
  tail = parsed("x + 1");
  EXPECT_ERROR(epifuse_epilogue_with_math(tail, 3, &tail), EPIFUSE_INVALID_ARGUMENT, "math is 3");
  EXPECT_ERROR(epifuse_engine_create("gpu", &other), EPIFUSE_INVALID_ARGUMENT, "cuda:N");
  EXPECT_ERROR(epifuse_engine_create(NULL, &other), EPIFUSE_INVALID_ARGUMENT, "the device's name is NULL");
  EXPECT(other == NULL);
  EXPECT_ERROR(epifuse_engine_launch(engine, NULL, &launch), EPIFUSE_INVALID_ARGUMENT, "the epilogue is NULL");
  EXPECT_ERROR(epifuse_engine_launch(NULL, tail, &launch), EPIFUSE_INVALID_ARGUMENT, "the engine is NULL");
  EXPECT_ERROR(epifuse_engine_launch(engine, tail, NULL), EPIFUSE_INVALID_ARGUMENT, "the launch is NULL");
  EXPECT_ERROR(epifuse_engine_synchronize(NULL, NULL), EPIFUSE_INVALID_ARGUMENT, "the engine is NULL");
  EXPECT_ERROR(epifuse_plan_text(tail, NULL, 90, &text), EPIFUSE_INVALID_ARGUMENT, "the launch is NULL");
  EXPECT_ERROR(epifuse_tensor_dense(NULL, EPIFUSE_F32, 2, NULL, NULL), EPIFUSE_INVALID_ARGUMENT, "extents is NULL");
  EXPECT(text == NULL && epifuse_epilogue_text(NULL) == NULL && epifuse_epilogue_input_count(NULL) == 0);
  epifuse_epilogue_free(tail);
  epifuse_epilogue_free(NULL);
  epifuse_engine_free(NULL);
  epifuse_text_free(NULL);
}

static void looking_inside(void) {
  epifuse_epilogue* standard = parsed("input x, bias; gelu(x + bias)");
  epifuse_epilogue* tail = NULL;
  EXPECT(epifuse_epilogue_with_math(standard, EPIFUSE_PRECISE, &tail) == EPIFUSE_OK);
  const int64_t rows[] = {4096, 1024}, row[] = {1024};
  const epifuse_tensor inputs[] = {dense(NULL, EPIFUSE_F16, 2, rows), dense(NULL, EPIFUSE_F16, 1, row)};
  const epifuse_tensor output = dense(NULL, EPIFUSE_F16, 2, rows);
  epifuse_launch launch = {0};
  launch.outputs = &output;
  launch.output_count = 1;
  launch.inputs = inputs;
  launch.input_count = 2;
  char* plan = NULL;
  char* source = NULL;
  EXPECT(epifuse_plan_text(tail, &launch, 90, &plan) == EPIFUSE_OK && strstr(plan, "schedule") != NULL);
  EXPECT(epifuse_cuda_source(tail, &launch, 90, &source) == EPIFUSE_OK && strstr(source, "__global__") != NULL);
  epifuse_text_free(plan);
  epifuse_text_free(source);
  epifuse_epilogue_free(tail);
  epifuse_epilogue_free(standard);
}

static void* fail_elsewhere(void* unused) {
  epifuse_epilogue* tail = NULL;
  (void)unused;
  EXPECT(strcmp(epifuse_last_error(), "") == 0);
  EXPECT_ERROR(epifuse_epilogue_parse("nonsense(", &tail), EPIFUSE_INVALID_EXPRESSION, "nonsense");
  return NULL;
}

static void each_thread_has_its_own_last_error(void) {
  epifuse_epilogue* tail = NULL;
  pthread_t thread;
  EXPECT_ERROR(epifuse_epilogue_parse("1 +* x", &tail), EPIFUSE_INVALID_EXPRESSION, "*");
  EXPECT(pthread_create(&thread, NULL, fail_elsewhere, NULL) == 0);
  EXPECT(pthread_join(thread, NULL) == 0);
  EXPECT(strstr(epifuse_last_error(), "nonsense") == NULL);
}

/* The CPU compiles nothing and opens no bundle: what is set is taken, and what cannot be is refused. */
static void an_engine_with_options(void) {
  static const unsigned char bytes[] = {1, 2, 3};
  epifuse_options* options = NULL;
  epifuse_engine* engine = NULL;
  EXPECT(epifuse_options_create(&options) == EPIFUSE_OK);
  EXPECT(epifuse_options_add_bundle(options, "kernels.epifuse") == EPIFUSE_OK);
  EXPECT(epifuse_options_add_bundle_memory(options, bytes, sizeof bytes) == EPIFUSE_OK);
  EXPECT(epifuse_options_set_compile(options, EPIFUSE_COMPILE_NEVER) == EPIFUSE_OK);
  EXPECT(epifuse_options_set_disk_cache(options, 0, NULL) == EPIFUSE_OK);
  EXPECT(epifuse_options_set_disk_cache(options, 1, "/tmp") == EPIFUSE_OK);
  EXPECT_ERROR(epifuse_options_set_compile(options, 2), EPIFUSE_INVALID_ARGUMENT, "EPIFUSE_COMPILE_NEVER");
  EXPECT_ERROR(epifuse_options_add_bundle(options, NULL), EPIFUSE_INVALID_ARGUMENT, "NULL");
  EXPECT_ERROR(epifuse_options_add_bundle(NULL, "x"), EPIFUSE_INVALID_ARGUMENT, "NULL");
  EXPECT_ERROR(epifuse_options_add_bundle_memory(options, NULL, 0), EPIFUSE_INVALID_ARGUMENT, "NULL");
  EXPECT_ERROR(epifuse_options_set_compile(NULL, 0), EPIFUSE_INVALID_ARGUMENT, "NULL");
  EXPECT_ERROR(epifuse_options_set_disk_cache(NULL, 0, NULL), EPIFUSE_INVALID_ARGUMENT, "NULL");
  EXPECT_ERROR(epifuse_options_create(NULL), EPIFUSE_INVALID_ARGUMENT, "NULL");
  EXPECT_ERROR(epifuse_engine_create_with("cpu", NULL, &engine), EPIFUSE_INVALID_ARGUMENT, "NULL");
  EXPECT_ERROR(epifuse_engine_create_with("gpu", options, &engine), EPIFUSE_INVALID_ARGUMENT, "cuda:N");
  EXPECT(epifuse_engine_create_with("cpu", options, &engine) == EPIFUSE_OK);
  epifuse_options_free(options);
  epifuse_options_free(NULL);
  a_launch(engine);
  epifuse_engine_free(engine);
}

int main(void) {
  epifuse_engine* engine = NULL;
  EXPECT(strlen(epifuse_version()) >= 5);
  /* Programs that were built before hand over structures of these sizes. */
  EXPECT(sizeof(epifuse_tensor) == sizeof(void*) + 8 + 16 * 8 && sizeof(epifuse_launch) == 9 * sizeof(void*));
  EXPECT(epifuse_engine_create("cpu", &engine) == EPIFUSE_OK);
  EXPECT(strcmp(epifuse_engine_device(engine), "cpu") == 0);
  names_of_an_epilogue();
  a_launch(engine);
  an_order_by_names(engine);
  an_order_that_nobody_stated(engine);
  a_result_in_an_operands_memory(engine);
  what_is_no_argument(engine);
  looking_inside();
  each_thread_has_its_own_last_error();
  an_engine_with_options();
  epifuse_engine_free(engine);
  return failures;
}
