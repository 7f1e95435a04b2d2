"use strict";
// Draws the charts, moves all panels of a maze with its slider, and highlights legend entries.
(() => {
  const parse = (id) => JSON.parse(document.getElementById(id).textContent);
  const charts = parse("charts");
  const scenes = parse("scenes");
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const CONFIG = { responsive: true, displayModeBar: false };
  const DEFAULT_OPACITY = 0.75;
  const DIM = 0.06;

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // The same style for every chart, in the colours of the page.
  function themed(layout) {
    const axis = { gridcolor: colour("--line"), zerolinecolor: colour("--line"), automargin: true, fixedrange: true };
    return {
      ...layout,
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: colour("--ink"), size: 12, family: "system-ui, sans-serif" },
      title: { font: { size: 14 }, x: 0, xanchor: "left", xref: "container", ...layout.title },
      margin: { l: 46, r: 12, t: 34, b: 42 },
      showlegend: false,
      dragmode: false,
      hovermode: "closest",
      xaxis: { ...axis, ...layout.xaxis },
      yaxis: { ...axis, ...layout.yaxis },
    };
  }

  // A maze: walls, start, and for each skill a line of all its episodes and a dot at the end of each.
  function unpack(panel, bounds) {
    const bytes = Uint8Array.from(atob(panel.positions), (letter) => letter.charCodeAt(0));
    const view = new DataView(bytes.buffer);
    const [, skills, episodes, times] = panel.shape;
    const [[left, bottom], [right, top]] = bounds;
    return (frame, skill) => {
      const line = { x: [], y: [] };
      const ends = { x: [], y: [] };
      for (let episode = 0; episode < episodes; episode++) {
        for (let time = 0; time < times; time++) {
          const place = 4 * (((frame * skills + skill) * episodes + episode) * times + time);
          const x = left + ((right - left) * view.getUint16(place, true)) / 65535;
          const y = bottom + ((top - bottom) * view.getUint16(place + 2, true)) / 65535;
          line.x.push(x);
          line.y.push(y);
          if (time === times - 1) {
            ends.x.push(x);
            ends.y.push(y);
          }
        }
        line.x.push(null);
        line.y.push(null);
      }
      return [line, ends];
    };
  }

  function coordinates(panel, frame) {
    const traces = [];
    for (let skill = 0; skill < panel.shape[1]; skill++) traces.push(...panel.at(frame, skill));
    return traces;
  }

  function drawPanel(element, scene, panel, frame) {
    const [[left, bottom], [right, top]] = scene.bounds;
    const margin = 0.02 * Math.max(right - left, top - bottom);
    const traces = coordinates(panel, frame).map((part, index) => ({
      ...part,
      type: "scatter",
      mode: index % 2 ? "markers" : "lines",
      line: { color: scene.colours[index >> 1], width: 1.2 },
      marker: { color: scene.colours[index >> 1], size: 5 },
      opacity: DEFAULT_OPACITY,
      hoverinfo: "skip",
      meta: index >> 1,
    }));
    const walls = { x: [], y: [] };
    for (const [[x, y], [xEnd, yEnd]] of scene.walls) {
      walls.x.push(x, xEnd, null);
      walls.y.push(y, yEnd, null);
    }
    const ink = colour("--ink");
    traces.push({ ...walls, type: "scatter", mode: "lines", line: { color: ink, width: 2 }, hoverinfo: "skip" });
    traces.push({
      x: [scene.start[0]], y: [scene.start[1]], type: "scatter", mode: "markers", hoverinfo: "skip",
      marker: { color: ink, size: 9, line: { color: colour("--ground"), width: 1.5 } },
    });
    const axis = { visible: false, fixedrange: true };
    const layout = {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false,
      margin: { l: 0, r: 0, t: 0, b: 0 },
      xaxis: { ...axis, range: [left - margin, right + margin] },
      yaxis: { ...axis, range: [bottom - margin, top + margin], scaleanchor: "x" },
    };
    return Plotly.react(element, traces, layout, { ...CONFIG, staticPlot: true });
  }

  // Traces hold the key of their legend entry in `meta`, maps in `data-key`.
  function highlight(scope, key) {
    for (const element of scope.querySelectorAll(".js-plotly-plot")) {
      const opacities = element.data.map((trace) => {
        if (trace.meta === undefined) return 1;
        if (key === null) return element.classList.contains("scene") ? DEFAULT_OPACITY : 1;
        return trace.meta === key ? 1 : DIM;
      });
      Plotly.restyle(element, { opacity: opacities });
    }
    for (const map of scope.querySelectorAll(".map")) {
      map.classList.toggle("dim", key !== null && Number(map.dataset.key) !== key);
    }
    if (key === null) delete scope.dataset.highlighted;
    else scope.dataset.highlighted = key;
  }

  function listen(scope) {
    let pinned = null;
    const buttons = [...scope.querySelectorAll(".legend button")];
    const show = (key) => highlight(scope, key);
    for (const button of buttons) {
      const key = Number(button.dataset.key);
      // Touch screens cannot hover: a tap keeps the highlight, a second one removes it.
      button.addEventListener("pointerenter", (event) => event.pointerType === "mouse" && show(key));
      button.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && show(pinned));
      button.addEventListener("focus", () => button.matches(":focus-visible") && show(key));
      button.addEventListener("blur", () => show(pinned));
      button.addEventListener("click", () => {
        pinned = pinned === key ? null : key;
        for (const other of buttons) other.setAttribute("aria-pressed", String(Number(other.dataset.key) === pinned));
        show(pinned);
      });
    }
    for (const map of scope.querySelectorAll(".map")) {
      map.addEventListener("pointerenter", (event) => event.pointerType === "mouse" && show(Number(map.dataset.key)));
      map.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && show(pinned));
    }
  }

  // The slider goes over the evaluation steps of all methods; a panel shows its latest evaluation up to that step.
  function frameOf(panel, step) {
    return Math.max(0, panel.steps.findLastIndex((own) => own <= step));
  }

  function slide(scope, scene) {
    const slider = scope.querySelector(".slider input");
    const output = scope.querySelector(".slider output");
    const play = scope.querySelector(".play");
    const figures = [...scope.querySelectorAll(".panel")];
    let waiting = false;
    let timer = null;
    const move = () => {
      waiting = false;
      const step = scene.steps[Number(slider.value)];
      output.textContent = `${step.toLocaleString("en")} steps`;
      figures.forEach((figure, index) => {
        const panel = scene.panels[index];
        const frame = frameOf(panel, step);
        if (panel.shown === frame) return;
        panel.shown = frame;
        figure.querySelector("figcaption").textContent = panel.captions[frame];
        if (!figure.querySelector(".js-plotly-plot")) return; // not drawn yet: draw() will use this frame
        const parts = coordinates(panel, frame);
        const update = { x: parts.map((part) => part.x), y: parts.map((part) => part.y) };
        Plotly.restyle(figure.querySelector(".scene"), update, parts.map((_, place) => place));
      });
      scope.dataset.step = step;
    };
    const request = () => {
      if (!waiting) requestAnimationFrame(move);
      waiting = true;
    };
    const stop = () => {
      clearInterval(timer);
      timer = null;
      play.textContent = "▶";
      play.setAttribute("aria-label", "play");
    };
    slider.addEventListener("input", () => {
      stop();
      request();
    });
    play.addEventListener("click", (event) => {
      event.preventDefault();
      if (timer !== null) return stop();
      if (slider.value === slider.max) slider.value = 0;
      play.textContent = "⏸";
      play.setAttribute("aria-label", "pause");
      request();
      timer = setInterval(() => {
        if (slider.value === slider.max) return stop();
        slider.value = Number(slider.value) + 1;
        request();
      }, 600);
    });
  }

  const pause = () => new Promise((resolve) => setTimeout(resolve));

  async function draw() {
    for (const scope of document.querySelectorAll(".scope[data-scene]")) {
      const scene = scenes[Number(scope.dataset.scene)];
      const elements = scope.querySelectorAll(".scene");
      for (const [index, panel] of scene.panels.entries()) {
        await drawPanel(elements[index], scene, panel, panel.shown);
        await pause();
      }
    }
    for (const [index, figure] of charts.entries()) {
      await Plotly.react(`chart-${index}`, figure.data, themed(figure.layout), CONFIG);
      await pause();
    }
    document.body.dataset.ready = "true";
  }

  for (const scene of scenes) {
    for (const panel of scene.panels) {
      panel.at = unpack(panel, scene.bounds);
      panel.shown = panel.steps.length - 1;
    }
  }
  for (const scope of document.querySelectorAll(".scope")) {
    listen(scope);
    if (scope.dataset.scene !== undefined) slide(scope, scenes[Number(scope.dataset.scene)]);
  }
  dark.addEventListener("change", draw);
  draw();
})();
