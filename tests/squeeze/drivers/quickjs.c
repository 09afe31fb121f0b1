/* Runs the JavaScript file that is its argument. */
#include <stdio.h>
#include "quickjs.h"

static JSValue print(JSContext *js, JSValueConst self, int count, JSValueConst *values)
{
    const char *text = JS_ToCString(js, values[0]);
    puts(text ? text : "?");
    JS_FreeCString(js, text);
    return JS_UNDEFINED;
}

int main(int argc, char **argv)
{
    static char text[1 << 20];
    FILE *file = argc > 1 ? fopen(argv[1], "r") : 0;
    if (!file)
        return 2;
    size_t size = fread(text, 1, sizeof text - 1, file);
    JSRuntime *runtime = JS_NewRuntime();
    JSContext *js = JS_NewContext(runtime);
    JSValue global = JS_GetGlobalObject(js);
    JS_SetPropertyStr(js, global, "print", JS_NewCFunction(js, print, "print", 1));
    JSValue result = JS_Eval(js, text, size, argv[1], JS_EVAL_TYPE_GLOBAL);
    int bad = JS_IsException(result);
    if (bad)
        fprintf(stderr, "%s\n", JS_ToCString(js, JS_GetException(js)));
    JS_FreeValue(js, result);
    JS_FreeValue(js, global);
    JS_FreeContext(js);
    JS_FreeRuntime(runtime);
    return bad;
}
