/* Runs the JavaScript file that is its argument. */
#include <stdio.h>
#include <stdlib.h>
#include "duktape.h"

static duk_ret_t print(duk_context *js)
{
    puts(duk_safe_to_string(js, 0));
    return 0;
}

int main(int argc, char **argv)
{
    static char text[1 << 20];
    FILE *file = argc > 1 ? fopen(argv[1], "r") : 0;
    if (!file)
        return 2;
    size_t size = fread(text, 1, sizeof text, file);
    duk_context *js = duk_create_heap_default();
    duk_push_c_function(js, print, 1);
    duk_put_global_string(js, "print");
    int bad = duk_peval_lstring(js, text, size);
    if (bad)
        fprintf(stderr, "%s\n", duk_safe_to_string(js, -1));
    duk_destroy_heap(js);
    return bad != 0;
}
