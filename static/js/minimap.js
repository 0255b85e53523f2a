// The message map: a canvas fed by one small binary (see debugger/web/map_bytes.py), and a slider over it.
(() => {
  const canvas = document.getElementById("map");
  const brush = document.getElementById("brush");
  const place = document.getElementById("map-place");
  if (!canvas || !brush) return;

  const pen = canvas.getContext("2d");
  const WINDOW = 60;
  const CHECKPOINT = 1;
  const EFFECT = 2;
  const FAILURE = 4;
  const TOP = 26;
  const BOTTOM = 32;
  const RIGHT = 14;

  let map = null;
  let first = Number(brush.getAttribute("aria-valuenow"));
  let shown = WINDOW;
  let width = 0;
  let height = 0;
  let left = 84;
  let colours = null;

  const number = (value) => Math.round(value).toLocaleString("en-GB");
  const bounded = (value, low, high) => Math.max(low, Math.min(high, value));

  function readColours() {
    const style = getComputedStyle(document.documentElement);
    const named = (name) => style.getPropertyValue(name).trim();
    colours = {
      lanes: [1, 2, 3, 4, 5, 6, 7, 8].map((lane) => named(`--lane-${lane}`)),
      ink: named("--ink"),
      words: named("--ink-2"),
      quiet: named("--ink-3"),
      bed: named("--surface-2"),
      surface: named("--surface"),
      waiting: named("--waiting"),
      failed: named("--blocked"),
      font: named("--font"),
    };
  }

  function parse(buffer) {
    const view = new DataView(buffer);
    if (view.getUint32(0) !== 0x42474d01) throw new Error("not a message map");
    const receipts = view.getUint32(4, true);
    const columns = view.getUint16(8, true);
    const lanes = view.getUint8(10);
    const decoder = new TextDecoder();
    const names = [];
    let at = 12;
    for (let lane = 0; lane < lanes; lane += 1) {
      const length = view.getUint8(at);
      names.push(decoder.decode(new Uint8Array(buffer, at + 1, length)));
      at += 1 + length;
    }
    at += at % 2;
    const counts = new Uint16Array(lanes * columns);
    let most = 1;
    for (let index = 0; index < counts.length; index += 1) {
      counts[index] = view.getUint16(at + index * 2, true);
      most = Math.max(most, counts[index]);
    }
    const marks = new Uint8Array(buffer, at + counts.length * 2, columns);
    return { receipts, columns, names, counts, marks, most };
  }

  function resize() {
    const ratio = devicePixelRatio || 1;
    width = canvas.clientWidth;
    height = canvas.clientHeight;
    left = width < 560 ? 64 : 84;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  }

  const plotWidth = () => width - left - RIGHT;
  const xOf = (seq) => left + ((seq - 1) / map.receipts) * plotWidth();
  const xOfColumn = (column) => left + ((column + 0.5) / map.columns) * plotWidth();

  function drawLanes() {
    const laneHeight = (height - TOP - BOTTOM) / map.names.length;
    const step = plotWidth() / map.columns;
    const gap = step > 5 ? 1 : 0;
    map.names.forEach((name, lane) => {
      const y = TOP + lane * laneHeight;
      pen.globalAlpha = 1;
      pen.fillStyle = colours.bed;
      pen.fillRect(left, y + 1, plotWidth(), laneHeight - 2);
      pen.fillStyle = colours.words;
      pen.textAlign = "right";
      pen.fillText(name, left - 10, y + laneHeight / 2, left - 14);
      pen.fillStyle = colours.lanes[lane];
      for (let column = 0; column < map.columns; column += 1) {
        const count = map.counts[lane * map.columns + column];
        if (!count) continue;
        pen.globalAlpha = 0.3 + 0.7 * Math.sqrt(count / map.most);
        pen.fillRect(left + column * step, y + 1, Math.max(step - gap, 1), laneHeight - 2);
      }
    });
    pen.globalAlpha = 1;
  }

  function drawCheckpoint(x) {
    pen.strokeStyle = colours.ink;
    pen.lineWidth = 1;
    pen.globalAlpha = 0.28;
    pen.beginPath();
    pen.moveTo(x, TOP - 4);
    pen.lineTo(x, height - BOTTOM);
    pen.stroke();
    pen.globalAlpha = 1;
    pen.fillStyle = colours.surface;
    pen.lineWidth = 1.5;
    pen.beginPath();
    pen.moveTo(x, TOP - 17);
    pen.lineTo(x + 5.5, TOP - 11.5);
    pen.lineTo(x, TOP - 6);
    pen.lineTo(x - 5.5, TOP - 11.5);
    pen.closePath();
    pen.fill();
    pen.stroke();
  }

  function drawEffect(x) {
    const y = height - BOTTOM + 7;
    pen.beginPath();
    pen.moveTo(x, y);
    pen.lineTo(x + 4.5, y + 8.5);
    pen.lineTo(x - 4.5, y + 8.5);
    pen.closePath();
    pen.fillStyle = colours.surface;
    pen.fill();
    pen.strokeStyle = colours.quiet;
    pen.lineWidth = 1.3;
    pen.stroke();
  }

  function drawFailure(x) {
    const radius = 6.5;
    const y = TOP - 11;
    pen.strokeStyle = colours.failed;
    pen.lineWidth = 2;
    pen.beginPath();
    pen.moveTo(x, TOP - 4);
    pen.lineTo(x, height - BOTTOM + 2);
    pen.stroke();
    pen.fillStyle = colours.failed;
    pen.beginPath();
    for (let corner = 0; corner < 8; corner += 1) {
      const angle = Math.PI / 8 + (corner * Math.PI) / 4;
      pen.lineTo(x + radius * Math.cos(angle), y + radius * Math.sin(angle));
    }
    pen.closePath();
    pen.fill();
    pen.strokeStyle = colours.surface;
    pen.lineWidth = 1.6;
    pen.beginPath();
    pen.moveTo(x - 2.4, y - 2.4);
    pen.lineTo(x + 2.4, y + 2.4);
    pen.moveTo(x + 2.4, y - 2.4);
    pen.lineTo(x - 2.4, y + 2.4);
    pen.stroke();
  }

  // Marks that would lie on each other are drawn once; the rows below show every one.
  function drawMarks(mask, room, draw) {
    let last = -room;
    for (let column = 0; column < map.columns; column += 1) {
      if (!(map.marks[column] & mask)) continue;
      const x = xOfColumn(column);
      if (x - last < room) continue;
      last = x;
      draw(x);
    }
  }

  function drawAxis() {
    const ticks = Math.max(1, Math.min(map.receipts - 1, Math.floor(plotWidth() / 110), 10));
    pen.fillStyle = colours.quiet;
    for (let tick = 0; tick <= ticks; tick += 1) {
      const seq = 1 + ((map.receipts - 1) * tick) / ticks;
      pen.textAlign = tick === 0 ? "left" : tick === ticks ? "right" : "center";
      const x = tick === ticks ? left + plotWidth() : xOf(seq);
      pen.fillText(number(seq), x, height - 7);
    }
  }

  function drawWindow() {
    if (shown >= map.receipts) return;
    const size = Math.max(6, (shown / map.receipts) * plotWidth());
    const x = Math.min(xOf(first), width - RIGHT - size);
    pen.fillStyle = colours.ink;
    pen.globalAlpha = 0.12;
    pen.fillRect(x - 1, TOP - 3, size + 2, height - TOP - BOTTOM + 6);
    pen.globalAlpha = 1;
    pen.strokeStyle = colours.ink;
    pen.lineWidth = 2;
    pen.beginPath();
    pen.roundRect(x - 1, TOP - 3, size + 2, height - TOP - BOTTOM + 6, 3);
    pen.stroke();
  }

  function draw() {
    if (!map || !width) return;
    pen.clearRect(0, 0, width, height);
    pen.font = `500 11px ${colours.font}`;
    pen.textBaseline = "middle";
    drawLanes();
    drawMarks(CHECKPOINT, 12, drawCheckpoint);
    drawMarks(EFFECT, 9, drawEffect);
    drawMarks(FAILURE, 12, drawFailure);
    drawAxis();
    drawWindow();
  }

  function tell() {
    const last = Math.min(map ? map.receipts : first + shown - 1, first + shown - 1);
    brush.setAttribute("aria-valuenow", first);
    brush.setAttribute("aria-valuetext", `receipts ${first} to ${last}`);
    place.textContent = `showing ${number(first)} to ${number(last)}`;
  }

  let waiting = 0;

  function move(seq) {
    first = bounded(Math.round(seq), 1, Math.max(1, map.receipts - WINDOW + 1));
    tell();
    draw();
    clearTimeout(waiting);
    waiting = setTimeout(load, 60);
  }

  function load() {
    const address = `${brush.dataset.window}?at=${first}`;
    htmx.ajax("GET", address, { source: brush, target: "#window", swap: "outerHTML" });
  }

  // Whoever moved the window, the rows that came back say where it is now.
  function follow() {
    const rows = document.getElementById("window");
    if (!rows) return;
    first = Number(rows.dataset.first) || 1;
    shown = Math.max(1, (Number(rows.dataset.last) || first) - first + 1);
    tell();
    draw();
    showMarked(rows);
  }

  function showMarked(rows) {
    const box = rows.querySelector(".rows");
    const row = rows.querySelector("tr.here");
    if (!box || !row) return;
    const heading = box.querySelector("thead").offsetHeight;
    if (row.offsetTop + row.offsetHeight <= box.clientHeight) return;
    let top = row;
    for (let count = 0; count < 5 && top.previousElementSibling; count += 1) top = top.previousElementSibling;
    box.scrollTop = top.offsetTop - heading;
  }

  function failed(event) {
    const rows = document.getElementById("window");
    if (!rows || event.detail.target !== rows || rows.querySelector("[data-lost]")) return;
    const notice = document.createElement("p");
    notice.className = "note";
    notice.dataset.lost = "";
    notice.setAttribute("role", "alert");
    notice.textContent = "The receipts did not come. ";
    const retry = document.createElement("button");
    retry.type = "button";
    retry.className = "btn sm";
    retry.textContent = "Retry";
    retry.addEventListener("click", load);
    notice.append(retry);
    rows.querySelector("header").after(notice);
  }

  function drag(event) {
    move(1 + ((event.offsetX - left) / plotWidth()) * map.receipts - WINDOW / 2);
  }

  brush.addEventListener("pointerdown", (event) => {
    if (!map) return;
    brush.setPointerCapture(event.pointerId);
    drag(event);
    brush.addEventListener("pointermove", drag);
  });
  for (const end of ["pointerup", "pointercancel"]) {
    brush.addEventListener(end, () => brush.removeEventListener("pointermove", drag));
  }

  brush.addEventListener("keydown", (event) => {
    if (!map) return;
    const steps = { ArrowRight: 30, ArrowUp: 30, ArrowLeft: -30, ArrowDown: -30, PageUp: 300, PageDown: -300 };
    const to = { Home: 1, End: map.receipts }[event.key] ?? first + (steps[event.key] ?? NaN);
    if (Number.isNaN(to)) return;
    event.preventDefault();
    move(to);
  });

  function recolour() {
    readColours();
    draw();
  }

  addEventListener("themechange", recolour);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);
  document.addEventListener("htmx:afterSettle", (event) => {
    if (event.detail.elt.id === "window" || event.detail.target?.id === "window") follow();
  });
  document.addEventListener("htmx:sendError", failed);
  new ResizeObserver(() => {
    resize();
    draw();
  }).observe(canvas);

  readColours();
  fetch(canvas.dataset.src)
    .then((answer) => (answer.ok ? answer.arrayBuffer() : Promise.reject(new Error("no map"))))
    .then((buffer) => {
      map = parse(buffer);
      resize();
      follow();
    })
    .catch(() => {
      place.textContent = "the map did not come; the rows below are complete";
    });
})();
