/* A database in memory: rows go in, are joined, sorted, changed and counted. The argument is a number of rows. */
#include <stdio.h>
#include <stdlib.h>
#include "sqlite3.h"

static int show(void *none, int columns, char **values, char **names)
{
    for (int i = 0; i < columns; i++)
        printf("%s%c", values[i] ? values[i] : "-", i + 1 < columns ? '|' : '\n');
    return 0;
}

static void run(sqlite3 *db, const char *sql)
{
    char *why = 0;
    if (sqlite3_exec(db, sql, show, 0, &why)) {
        fprintf(stderr, "%s: %s\n", sql, why);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    sqlite3 *db;
    char sql[400];
    if (argc < 2 || sqlite3_open(":memory:", &db))
        return 2;
    run(db, "create table item(id integer primary key, kind int, price real, name text)");
    run(db, "create table sale(item int, day int, amount int)");
    run(db, "begin");
    unsigned seed = 1;
    for (int i = 0; i < atoi(argv[1]); i++) {
        seed = seed * 1664525 + 1013904223;
        snprintf(sql, sizeof sql, "insert into item values(%d, %u, %u.25, 'name %x')", i, seed >> 28, seed >> 20 & 1023, seed);
        run(db, sql);
        snprintf(sql, sizeof sql, "insert into sale values(%u, %u, %u)", seed % (i + 1), seed >> 8 & 31, seed >> 16 & 7);
        run(db, sql);
    }
    run(db, "commit");
    run(db, "create index day on sale(day)");
    run(db, "select kind, count(*), sum(price * amount) from item join sale on item.id = sale.item group by kind order by 3");
    run(db, "select name, price from item where name like '%7_f%' order by price desc, name limit 5");
    run(db, "update item set price = price * 1.1 where kind in (select distinct day from sale where amount > 5)");
    run(db, "with recursive n(i) as (values(1) union all select i + 1 from n where i < 2000) select sum(i * i) from n where i % 7");
    run(db, "delete from sale where day between 10 and 20");
    run(db, "select day, max(amount), group_concat(distinct amount) from sale group by day having count(*) > 3");
    return sqlite3_close(db);
}
