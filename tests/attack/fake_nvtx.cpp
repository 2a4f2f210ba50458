// A library with the name of NVTX's old one and two of its functions, which write down what they are called with. It is
// also a profiler that NVTX 3 injects: that writes down what reaches its domains.
#include <string>

#ifdef EPIFUSE_NVTX3
#define NVTX_NO_IMPL  // what tools define: types and declarations alone
#include <nvtx3/nvToolsExt.h>
#endif

namespace {
std::string& written() {
  static std::string text;
  return text;
}

#ifdef EPIFUSE_NVTX3
const std::string& name_of(nvtxDomainHandle_t domain) { return *reinterpret_cast<const std::string*>(domain); }

nvtxDomainHandle_t create_domain(const char* name) {
  static std::string only;
  only = name;
  return reinterpret_cast<nvtxDomainHandle_t>(&only);
}

int push_range(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* range) {
  const bool is_text = range->version == NVTX_VERSION && range->size == NVTX_EVENT_ATTRIB_STRUCT_SIZE &&
                       range->messageType == NVTX_MESSAGE_TYPE_ASCII;
  written() += "<" + name_of(domain) + ": " + (is_text ? range->message.ascii : "no text") + ">";
  return 0;
}

int pop_range(nvtxDomainHandle_t domain) {
  written() += "</" + name_of(domain) + ">";
  return 0;
}
#endif
}  // namespace

extern "C" {

int nvtxRangePushA(const char* name) {
  written() += std::string("<") + name + ">";
  return 0;
}

int nvtxRangePop() {
  written() += "</>";
  return 0;
}

#ifdef EPIFUSE_NVTX3
int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t table_of) {
  const auto* const callbacks = static_cast<const NvtxExportTableCallbacks*>(table_of(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable functions = nullptr;
  unsigned int size = 0;
  if (callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &functions, &size) == 0) return 0;
  *functions[NVTX_CBID_CORE2_DomainCreateA] = reinterpret_cast<NvtxFunctionPointer>(create_domain);
  *functions[NVTX_CBID_CORE2_DomainRangePushEx] = reinterpret_cast<NvtxFunctionPointer>(push_range);
  *functions[NVTX_CBID_CORE2_DomainRangePop] = reinterpret_cast<NvtxFunctionPointer>(pop_range);
  return 1;
}
#endif

const char* nvtx_written() { return written().c_str(); }
}
