// What fmt 9 declares and does not define inline, compiled here once instead of in every file that formats: header-only
// it took half of the library's compile time. Weak, so that a program which also links a libfmt of this version has no
// duplicates. Nobody includes this.
#include <fmt/format.h>

#undef FMT_FUNC
#define FMT_FUNC __attribute__((weak))
#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
namespace detail {

template auto dragonbox::to_decimal(float x) noexcept -> dragonbox::decimal_fp<float>;
template auto dragonbox::to_decimal(double x) noexcept -> dragonbox::decimal_fp<double>;
template locale_ref::locale_ref(const std::locale& locale);
template auto locale_ref::get<std::locale>() const -> std::locale;
template auto thousands_sep_impl(locale_ref locale) -> thousands_sep_result<char>;
template auto decimal_point_impl(locale_ref locale) -> char;
template void buffer<char>::append(const char* begin, const char* end);
template void vformat_to(buffer<char>& to, string_view format, basic_format_args<FMT_BUFFER_CONTEXT(char)> args,
                         locale_ref locale);

}  // namespace detail
FMT_END_NAMESPACE
