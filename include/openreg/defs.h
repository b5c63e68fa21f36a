/* How the public headers declare things. Nothing here is an API of its own. */
#ifndef OPENREG_DEFS_H
#define OPENREG_DEFS_H

#if defined(__GNUC__)
#define OPENREG_API __attribute__((visibility("default")))
#else
#error "OpenReg is built with GCC 12 or later, or a compatible compiler"
#endif

#ifdef __cplusplus
#define OPENREG_BEGIN_DECLS extern "C" {
#define OPENREG_END_DECLS }
#else
#define OPENREG_BEGIN_DECLS
#define OPENREG_END_DECLS
#endif

#endif /* OPENREG_DEFS_H */
