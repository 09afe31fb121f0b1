// Objects, strings, numbers, closures, sorting, regular expressions: for interpreters of ECMAScript 5.
function Random(seed) { this.state = seed; }
Random.prototype.next = function (limit) {
    this.state = (this.state * 1103515245 + 12345) % 2147483648;
    return Math.floor(this.state / 2147483648 * limit);
};
var random = new Random(42);

function Tree() { this.root = null; this.size = 0; }
Tree.prototype.insert = function (key, value) {
    var node = { key: key, value: value, left: null, right: null };
    if (this.root === null) { this.root = node; this.size = 1; return; }
    for (var at = this.root; ;) {
        var side = key < at.key ? 'left' : 'right';
        if (at[side] === null) { at[side] = node; this.size++; return; }
        at = at[side];
    }
};
Tree.prototype.walk = function (visit, node) {
    if (node === undefined) node = this.root;
    if (node === null) return;
    this.walk(visit, node.left);
    visit(node.key, node.value);
    this.walk(visit, node.right);
};

function tokens(text) {
    var pattern = /\s*(?:(\d+)|([a-z]\w*)|(.))/g, found, all = [];
    while ((found = pattern.exec(text)) !== null) {
        if (found[1] !== undefined) all.push({ kind: 'number', value: +found[1] });
        else if (found[2] !== undefined) all.push({ kind: 'name', value: found[2] });
        else all.push({ kind: found[3], value: found[3] });
    }
    return all;
}

function evaluate(text, names) {
    var all = tokens(text), at = 0;
    function term() {
        var token = all[at++];
        switch (token.kind) {
            case 'number': return token.value;
            case 'name': return names[token.value] || 0;
            case '(': var inner = sum(); at++; return inner;
            case '-': return -term();
            default: throw new Error('what is ' + token.value);
        }
    }
    function product() {
        var value = term();
        while (at < all.length && (all[at].kind === '*' || all[at].kind === '/')) {
            var operator = all[at++].kind, other = term();
            value = operator === '*' ? value * other : value / (other || 1);
        }
        return value;
    }
    function sum() {
        var value = product();
        while (at < all.length && (all[at].kind === '+' || all[at].kind === '-')) {
            var operator = all[at++].kind, other = product();
            value = operator === '+' ? value + other : value - other;
        }
        return value;
    }
    return sum();
}

for (var round = 0; round < 40; round++) {
    var tree = new Tree(), words = {}, list = [];
    for (var i = 0; i < 300; i++) {
        var key = random.next(100000).toString(36);
        tree.insert(key, i);
        list.push(random.next(1000));
        words[key.charAt(0)] = (words[key.charAt(0)] || 0) + 1;
    }
    var order = '';
    tree.walk(function (key, value) { if (value % 17 === 0) order += key + ','; });
    list.sort(function (a, b) { return a - b; });
    var even = list.filter(function (n) { return n % 2 === 0; }).map(function (n) { return n * n; });
    var value = 0, failed = 0;
    for (var j = 0; j < 40; j++) {
        try {
            value += evaluate('(a+' + j + ')*3-b/(2+' + list[j] + ')' + (j % 13 === 5 ? '+#' : ''), { a: round, b: j });
        } catch (error) { failed++; }
    }
    var matrix = [];
    for (var y = 0; y < 12; y++) { matrix[y] = []; for (var x = 0; x < 12; x++) matrix[y][x] = Math.sin(x * y + round); }
    var trace = 0;
    for (y = 0; y < 12; y++) for (x = 0; x < 12; x++) for (var k = 0; k < 12; k++) trace += matrix[y][k] * matrix[k][x];
    if (round % 10 === 0)
        print([tree.size, order.length, even.length, value.toFixed(3), failed, trace.toFixed(6), JSON.stringify(words).length].join(' '));
}
