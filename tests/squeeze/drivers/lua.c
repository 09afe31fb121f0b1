/* Runs the Lua file that is its argument. */
#include <stdio.h>
#include "lua.h"
#include "lauxlib.h"
#include "lualib.h"

int main(int argc, char **argv)
{
    lua_State *state = luaL_newstate();
    if (argc < 2 || !state)
        return 2;
    luaL_openlibs(state);
    if (luaL_dofile(state, argv[1])) {
        fprintf(stderr, "%s\n", lua_tostring(state, -1));
        return 1;
    }
    lua_close(state);
    return 0;
}
